//! Whether crore may listen where others can reach it.

use std::fmt;
use std::net::SocketAddr;

/// What protects a port on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Nothing: everything is read by who is on the way.
    Plain,
    /// TLS; a client says who it is by a token.
    Tls,
    /// TLS; a client may say who it is by a certificate.
    ClientCertificates,
}

/// Why a server may not listen there, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} can be reached from other machines, and there is no token yet: whoever reaches it could do \
     everything; make a token first (`crore token create NAME --preset admin --data DIR`), or ask for \
     client certificates (`tls.client-ca`), or listen on 127.0.0.1, or say `--insecure` if you mean it"
)]
pub struct Refusal {
    /// Where it was to listen.
    pub address: SocketAddr,
}

/// What whoever starts such a server should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Everything is said in plain text, tokens too.
    PlainText(SocketAddr),
    /// There is no token, and anybody may do everything.
    OpenToAll(SocketAddr),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainText(address) => write!(
                f,
                "{address} is plain text: tokens and jobs can be read on the way; set `tls.certificate` and \
                 `tls.key`, or put it behind something that speaks TLS"
            ),
            Self::OpenToAll(address) => write!(
                f,
                "{address} is open to everybody who can reach it, until there is a token \
                 (`crore token create`)"
            ),
        }
    }
}

/// Whether a server may listen on this address, and what to warn of. On loopback it always may. Beyond,
/// callers have to be known by a token or a certificate, unless `insecure` says otherwise.
pub fn may_listen(
    address: SocketAddr,
    has_token: bool,
    protection: Protection,
    insecure: bool,
) -> Result<Vec<Warning>, Refusal> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(Vec::new());
    }
    let is_known = has_token || protection == Protection::ClientCertificates;
    if !is_known && !insecure {
        return Err(Refusal { address });
    }
    let plain = (protection == Protection::Plain).then_some(Warning::PlainText(address));
    let open = (!has_token && insecure).then_some(Warning::OpenToAll(address));
    Ok(plain.into_iter().chain(open).collect())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod tests {
    use super::Protection::{ClientCertificates, Plain, Tls};
    use super::*;

    #[test]
    fn beyond_loopback_callers_have_to_be_known_unless_told_otherwise() {
        // Address, token, protection, insecure, and the number of warnings if it may.
        let rows = [
            ("127.0.0.1:9000", false, Plain, false, Some(0)),
            ("127.9.9.9:9000", false, Plain, false, Some(0)),
            ("[::1]:9000", false, Plain, false, Some(0)),
            ("[::ffff:127.0.0.1]:9000", false, Plain, false, Some(0)),
            ("0.0.0.0:9000", false, Plain, false, None),
            ("[::]:9000", false, Tls, false, None),
            ("10.0.0.1:9000", false, Tls, false, None),
            ("10.0.0.1:9000", false, ClientCertificates, false, Some(0)),
            ("10.0.0.1:9000", true, Tls, false, Some(0)),
            ("10.0.0.1:9000", true, Plain, false, Some(1)),
            ("10.0.0.1:9000", true, Plain, true, Some(1)),
            ("10.0.0.1:9000", false, Plain, true, Some(2)),
            ("10.0.0.1:9000", false, Tls, true, Some(1)),
        ];
        for (address, token, protection, insecure, warnings) in rows {
            let address = address.parse().expect("an address");
            let may = may_listen(address, token, protection, insecure);
            assert_eq!(may.as_ref().ok().map(Vec::len), warnings, "{address} {may:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let address = "0.0.0.0:9000".parse().expect("an address");
        let refusal = may_listen(address, false, Plain, false).expect_err("refused").to_string();
        for word in ["0.0.0.0:9000", "crore token create", "tls.client-ca", "--insecure"] {
            assert!(refusal.contains(word), "{refusal}");
        }
    }
}
