//! Signatures as in Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`. They show a worker that a job comes from
//! crore and was not changed.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// Prefix of a secret.
const PREFIX: &str = "whsec_";

/// Secret shared with workers: `whsec_` and 24 to 64 bytes in base64. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Arc<[u8]>);

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl TryFrom<String> for SigningSecret {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let key = text.strip_prefix(PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok());
        match key {
            Some(key) if (24..=64).contains(&key.len()) => Ok(Self(key.into())),
            _ => Err("expected `whsec_` followed by 24 to 64 bytes in base64"),
        }
    }
}

/// The signatures of a message as one header value, one for each secret. There are two secrets while one replaces the
/// other.
pub(crate) fn signatures(
    secrets: &[SigningSecret],
    id: &str,
    timestamp: i64,
    body: &[u8],
) -> String {
    let sign = |secret: &SigningSecret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
        let mut context = hmac::Context::with_key(&key);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Result<SigningSecret, &'static str> {
        SigningSecret::try_from(text.to_owned())
    }

    /// The example of the specification's own reference libraries.
    #[test]
    fn signatures_equal_those_of_other_libraries() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("good");
        let signed = signatures(
            &[secret.clone(), secret],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signed, format!("{one} {one}"));
    }

    #[test]
    fn a_secret_is_checked_and_never_shown() {
        for bad in ["", "whsec_", "hello", "whsec_c2hvcnQ=", "whsec_!!!!"] {
            assert!(secret(bad).is_err(), "{bad}");
        }
        let good = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("good");
        assert_eq!(format!("{good:?}"), "***");
    }
}
