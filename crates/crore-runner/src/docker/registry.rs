//! Registries that want to know who pulls.

use bollard::auth::DockerCredentials;
use crore_core::{Code, Invalid};
use http::HeaderValue;
use serde::Deserialize;

use crate::mask::Masks;
use crate::runner::Failure;
use crate::secret::Secret;

/// Where images come from that name no registry.
const HUB: &str = "docker.io";

/// What engines call it when somebody logs in there.
const HUB_LOGIN: &str = "https://index.docker.io/v1/";

/// The header by which an engine is told who pulls.
const LOGIN: &str = "x-registry-auth";

/// By whom images of one registry are pulled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registry {
    /// Whose password it is; that of the handler's image, unless told otherwise.
    #[serde(default)]
    address: Option<String>,
    user: Secret,
    password: Secret,
}

impl Registry {
    /// Checks it, and settles whose password it is.
    pub(super) fn settle(&mut self, image: Option<&str>) -> Result<(), Invalid> {
        let wrong = |field: &str, message: &str| {
            let field = format!("settings.registry{field}");
            Err(Invalid::new(Code::Malformed, field, message))
        };
        if !self.password.is_reference() {
            let message =
                "say where it stands, as `env:NAME` or `file:/path`: settings can be read";
            return wrong(".password", message);
        }
        let of_image = image.map(|image| registry_of(image).to_owned());
        let Some(address) = self.address.take().or(of_image) else {
            let message = "it is missing: jobs name the image, and must not choose who is told the \
                           password";
            return wrong(".address", message);
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if address.is_empty() || !address.chars().all(is_part) {
            return wrong(".address", "it is none such as `registry.example.com:5000`");
        }
        self.address = Some(address);
        Ok(())
    }

    /// Who pulls an image: nobody in particular, if another registry has it. Whoever pushes a job may
    /// name an image, and a registry is told the password.
    pub(super) async fn login(
        &self,
        image: &str,
        masks: &mut Masks,
    ) -> Result<Option<DockerCredentials>, Failure> {
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

/// The registry that an image comes from, as engines read its name.
fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => HUB,
    }
}

/// Puts a login into the alphabet that engines read, which is that of URLs: bollard writes the other
/// one, and a password with the wrong bytes would be none.
pub(super) fn spell<T>(mut request: http::Request<T>) -> http::Request<T> {
    if let Some(login) = request.headers_mut().get_mut(LOGIN) {
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

    fn settled(registry: Value, image: Option<&str>) -> Result<Registry, Invalid> {
        let mut read: Registry = serde_json::from_value(registry).expect("its shape is right");
        read.settle(image).map(|()| read)
    }

    #[test]
    fn the_registry_of_an_image_is_read_as_engines_read_it() {
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
    async fn a_password_is_for_one_registry_alone() {
        let said = json!({ "user": "me", "password": "env:PATH" });
        let registry = settled(said, Some("a.example/x")).expect("right");
        let mut masks = Masks::default();
        let login = registry.login("a.example/y", &mut masks).await.expect("looked up");
        let login = login.expect("it is that registry's");
        assert_eq!(login.username.as_deref(), Some("me"));
        assert_eq!(login.serveraddress.as_deref(), Some("a.example"));
        let password = login.password.expect("there is one");
        assert_eq!(masks.apply(&format!("it was {password}")), "it was ***");
        for other in ["x", "b.example/x", "a.example:5000/x", "evil/a.example/x"] {
            let login = registry.login(other, &mut masks).await.expect("nothing to look up");
            assert_eq!(login, None, "{other}");
        }
        let hub = settled(json!({ "user": "me", "password": "env:PATH" }), Some("team/x"));
        let login = hub.expect("right").login("y", &mut masks).await.expect("looked up");
        assert_eq!(login.expect("the same").serveraddress.as_deref(), Some(HUB_LOGIN));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        let with = |address: &str, password: &str| json!({ "address": address, "user": "me", "password": password });
        let cases = [
            (with("a.example", "hush"), Some("x"), "settings.registry.password"),
            (with("", "env:A"), Some("x"), "settings.registry.address"),
            (with("https://a.example/", "env:A"), Some("x"), "settings.registry.address"),
            (json!({ "user": "me", "password": "env:A" }), None, "settings.registry.address"),
        ];
        for (registry, image, field) in cases {
            let invalid = settled(registry, image).map(drop).expect_err("it is wrong");
            assert_eq!(invalid.field, field, "{invalid}");
        }
        let named = settled(with("a.example", "env:A"), Some("b.example/x")).expect("right");
        assert_eq!(named.address.as_deref(), Some("a.example"));
    }

    #[test]
    fn a_login_is_spelt_as_engines_read_it() {
        let request = http::Request::get("/").header(LOGIN, "ab+/c==").header("x-other", "+/");
        let spelt = spell(request.body(()).expect("a request"));
        assert_eq!(
            (&spelt.headers()[LOGIN], &spelt.headers()["x-other"]),
            (&HeaderValue::from_static("ab-_c=="), &HeaderValue::from_static("+/"))
        );
        assert!(spelt.headers()[LOGIN].is_sensitive());
    }
}
