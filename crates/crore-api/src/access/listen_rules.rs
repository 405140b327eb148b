//! Rules for listening on addresses that other machines can reach.

use std::fmt;
use std::net::SocketAddr;

/// Transport security of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Plain text: everything can be read on the network.
    Plain,
    /// TLS; clients authenticate with a token.
    Tls,
    /// TLS; clients may authenticate with a certificate.
    ClientCertificates,
}

/// Refusal to listen on an address, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} can be reached from other machines, but there is no access token yet, so anyone could do \
     everything; create a token (`crore token create NAME --preset admin --data DIR`), require client \
     certificates (`tls.client-ca`), listen on 127.0.0.1, or set `--insecure` to allow it"
)]
pub struct ListenRefused {
    /// The address that was refused.
    pub address: SocketAddr,
}

/// Warning about a risky listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenWarning {
    /// All traffic is plain text, including tokens.
    PlainText(SocketAddr),
    /// There is no token, so anyone has full access.
    OpenToAll(SocketAddr),
}

impl fmt::Display for ListenWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainText(address) => write!(
                f,
                "{address} is plain text: tokens and jobs can be read on the network; set `tls.certificate` and \
                 `tls.key`, or use a TLS proxy"
            ),
            Self::OpenToAll(address) => write!(
                f,
                "{address} is open to anyone who can reach it, until a token exists \
                 (`crore token create`)"
            ),
        }
    }
}

/// Checks whether a server may listen on this address, and returns warnings. Loopback is always allowed. On other
/// addresses callers need a token or a certificate, unless `insecure` is set.
pub fn may_listen(
    address: SocketAddr,
    has_token: bool,
    protection: Protection,
    insecure: bool,
) -> Result<Vec<ListenWarning>, ListenRefused> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(Vec::new());
    }
    let requires_authentication = has_token || protection == Protection::ClientCertificates;
    if !requires_authentication && !insecure {
        return Err(ListenRefused { address });
    }
    let plain = (protection == Protection::Plain).then_some(ListenWarning::PlainText(address));
    let open = (!has_token && insecure).then_some(ListenWarning::OpenToAll(address));
    Ok(plain.into_iter().chain(open).collect())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::Protection::{ClientCertificates, Plain, Tls};
    use super::*;

    #[test]
    fn public_addresses_need_authentication_unless_insecure() {
        // Address, token, protection, insecure, and the number of warnings if allowed.
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
    fn a_refused_address_is_reported_with_what_to_do() {
        let address = "0.0.0.0:9000".parse().expect("an address");
        let refusal = may_listen(address, false, Plain, false).expect_err("refused").to_string();
        for word in ["0.0.0.0:9000", "crore token create", "tls.client-ca", "--insecure"] {
            assert!(refusal.contains(word), "{refusal}");
        }
    }
}
