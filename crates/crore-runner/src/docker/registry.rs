//! Logins for image registries.

use bollard::auth::DockerCredentials;
use crore_core::{Code, Invalid};
use http::HeaderValue;
use serde::Deserialize;

use crate::mask::Masks;
use crate::runner::RunFailure;
use crate::secret::SecretRef;

/// The registry of images that name none.
const HUB: &str = "docker.io";

/// The server address of Docker Hub in logins.
const HUB_LOGIN: &str = "https://index.docker.io/v1/";

/// The header with the login of a pull.
const LOGIN_HEADER: &str = "x-registry-auth";

/// The login for one registry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistryLogin {
    /// The registry that may see the password; by default that of the handler's image.
    #[serde(default)]
    address: Option<String>,
    user: SecretRef,
    password: SecretRef,
}

impl RegistryLogin {
    /// Checks the login and determines its registry.
    pub(super) fn resolve_address(&mut self, image: Option<&str>) -> Result<(), Invalid> {
        let wrong = |field: &str, message: &str| {
            let field = format!("settings.registry{field}");
            Err(Invalid::new(Code::Malformed, field, message))
        };
        if !self.password.is_reference() {
            let message = "use a reference, `env:NAME` or `file:/path`: settings are not secret";
            return wrong(".password", message);
        }
        let of_image = image.map(|image| registry_of(image).to_owned());
        let Some(address) = self.address.take().or(of_image) else {
            let message = "missing; jobs name the image here and must not choose the registry that gets the \
                           password";
            return wrong(".address", message);
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if address.is_empty() || !address.chars().all(is_part) {
            return wrong(
                ".address",
                "not a registry address; write for example `registry.example.com:5000`",
            );
        }
        self.address = Some(address);
        Ok(())
    }

    /// The login for an image; none if the image comes from another registry. The pusher of a job may name an
    /// image, and must not direct the password to a registry of its choice.
    pub(super) async fn login(
        &self,
        image: &str,
        masks: &mut Masks,
    ) -> Result<Option<DockerCredentials>, RunFailure> {
        let registry = registry_of(image);
        if self.address.as_deref() != Some(registry) {
            return Ok(None);
        }
        let server = if registry == HUB { HUB_LOGIN } else { registry };
        Ok(Some(DockerCredentials {
            username: Some(masks.look_up(&self.user).await?),
            password: Some(masks.look_up(&self.password).await?),
            serveraddress: Some(server.to_owned()),
            ..DockerCredentials::default()
        }))
    }
}

/// The registry of an image, by the rules of the engines.
fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => HUB,
    }
}

/// Converts a login to URL-safe base64, which engines expect. bollard writes standard base64, which they
/// would decode to a wrong password.
pub(super) fn to_url_safe_base64<T>(mut request: http::Request<T>) -> http::Request<T> {
    if let Some(login) = request.headers_mut().get_mut(LOGIN_HEADER) {
        let text = login.to_str().unwrap_or_default().replace('+', "-").replace('/', "_");
        if let Ok(mut spelt) = HeaderValue::try_from(text) {
            spelt.set_sensitive(true);
            *login = spelt;
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resolved(registry: Value, image: Option<&str>) -> Result<RegistryLogin, Invalid> {
        let mut read: RegistryLogin = serde_json::from_value(registry).expect("the expected shape");
        read.resolve_address(image).map(|()| read)
    }

    #[test]
    fn the_registry_of_an_image_is_parsed_as_docker_does() {
        let cases = [
            ("alpine", HUB),
            ("team/alpine:3", HUB),
            ("docker.io/library/alpine", HUB),
            ("localhost/alpine", "localhost"),
            ("localhost:5000/alpine", "localhost:5000"),
            ("registry.example.com/team/alpine@sha256:00", "registry.example.com"),
        ];
        for (image, registry) in cases {
            assert_eq!(registry_of(image), registry, "{image}");
        }
    }

    #[tokio::test]
    async fn a_password_is_sent_to_its_registry_only() {
        let settings = json!({ "user": "me", "password": "env:PATH" });
        let registry = resolved(settings, Some("a.example/x")).expect("valid");
        let mut masks = Masks::default();
        let login = registry.login("a.example/y", &mut masks).await.expect("looked up");
        let login = login.expect("a login for the registry");
        assert_eq!(login.username.as_deref(), Some("me"));
        assert_eq!(login.serveraddress.as_deref(), Some("a.example"));
        let password = login.password.expect("there is one");
        assert_eq!(masks.apply(&format!("it was {password}")), "it was ***");
        for other in ["x", "b.example/x", "a.example:5000/x", "evil/a.example/x"] {
            let login = registry.login(other, &mut masks).await.expect("nothing to look up");
            assert_eq!(login, None, "{other}");
        }
        let hub = resolved(json!({ "user": "me", "password": "env:PATH" }), Some("team/x"));
        let login = hub.expect("valid").login("y", &mut masks).await.expect("looked up");
        assert_eq!(login.expect("the same").serveraddress.as_deref(), Some(HUB_LOGIN));
    }

    #[test]
    fn errors_name_the_field() {
        let with = |address: &str, password: &str| json!({ "address": address, "user": "me", "password": password });
        let cases = [
            (with("a.example", "hush"), Some("x"), "settings.registry.password"),
            (with("", "env:A"), Some("x"), "settings.registry.address"),
            (with("https://a.example/", "env:A"), Some("x"), "settings.registry.address"),
            (json!({ "user": "me", "password": "env:A" }), None, "settings.registry.address"),
        ];
        for (registry, image, field) in cases {
            let invalid = resolved(registry, image).map(drop).expect_err("it is invalid");
            assert_eq!(invalid.field, field, "{invalid}");
        }
        let named = resolved(with("a.example", "env:A"), Some("b.example/x")).expect("valid");
        assert_eq!(named.address.as_deref(), Some("a.example"));
    }

    #[test]
    fn login_is_url_safe_base64() {
        let request =
            http::Request::get("/").header(LOGIN_HEADER, "ab+/c==").header("x-other", "+/");
        let spelt = to_url_safe_base64(request.body(()).expect("a request"));
        assert_eq!(
            (&spelt.headers()[LOGIN_HEADER], &spelt.headers()["x-other"]),
            (&HeaderValue::from_static("ab-_c=="), &HeaderValue::from_static("+/"))
        );
        assert!(spelt.headers()[LOGIN_HEADER].is_sensitive());
    }
}
