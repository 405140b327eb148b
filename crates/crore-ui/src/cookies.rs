//! Cookies: the session, and the visitor's preferences.

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

/// The session id. The name ends with the port, see [`session_name`].
const SESSION: &str = "crore-session";
/// The language.
pub(crate) const LANGUAGE: &str = "crore-language";
/// The theme.
pub(crate) const THEME: &str = "crore-theme";
/// The time range of charts.
pub(crate) const RANGE: &str = "crore-range";

/// Preferences are kept for a year.
const PREFERENCE_SECONDS: u32 = 365 * 24 * 60 * 60;

/// The name of the session cookie at a host. Browsers send a cookie to every port of its host, so that without the port in
/// the name two servers on one host would log each other out.
pub(crate) fn session_name(host: &str) -> String {
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.filter(is_port) {
        Some(port) => format!("{SESSION}-{port}"),
        None => SESSION.to_owned(),
    }
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// How a cookie is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CookieScope<'a> {
    /// The path of the pages.
    pub(crate) path: &'a str,
    /// The name of the session cookie.
    pub(crate) session: &'a str,
    /// Whether the browser sends it over TLS only.
    pub(crate) is_secure: bool,
}

impl CookieScope<'_> {
    /// Sets the session, or removes it.
    pub(crate) fn set_session(self, headers: &mut HeaderMap, id: Option<&str>) {
        // The browser forgets it when it is closed; the server forgets it earlier.
        let age = if id.is_some() { "" } else { "; Max-Age=0" };
        let id = id.unwrap_or_default();
        let name = self.session;
        self.set(headers, &format!("{name}={id}; HttpOnly; SameSite=Strict{age}"));
    }

    /// Sets a preference.
    pub(crate) fn set_preference(self, headers: &mut HeaderMap, name: &str, value: &str) {
        let text = format!("{name}={value}; SameSite=Strict; Max-Age={PREFERENCE_SECONDS}");
        self.set(headers, &text);
    }

    fn set(self, headers: &mut HeaderMap, text: &str) {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{text}; Path={}{secure}", self.path);
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.append(SET_COOKIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_other_ports_have_other_sessions() {
        for (host, name) in [
            ("127.0.0.1:9000", "crore-session-9000"),
            ("[::1]:9001", "crore-session-9001"),
            ("jobs.example.com", "crore-session"),
            ("[::1]", "crore-session"),
            ("a:b", "crore-session"),
        ] {
            assert_eq!(session_name(host), name);
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        let text = "a=1; crore-session=x=y ;crore-theme=dark";
        headers.insert(COOKIE, HeaderValue::from_static(text));
        assert_eq!(cookie(&headers, SESSION), Some("x=y"));
        assert_eq!(cookie(&headers, THEME), Some("dark"));
        assert_eq!(cookie(&headers, "crore"), None);
    }
}
