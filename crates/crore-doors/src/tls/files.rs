//! Certificate and key files.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use sha2::Digest as _;

use super::{Options, TlsError};

/// Digest of the contents of all files.
pub(super) type Digest = [u8; 32];

/// Contents of the files.
pub(super) struct Files {
    certificate: TlsFile,
    key: TlsFile,
    client_ca: Option<TlsFile>,
    client_revoked: Option<TlsFile>,
}

struct TlsFile {
    setting: &'static str,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Files {
    /// Reads the files; `None`: the options name none.
    pub(super) fn read(options: &Options) -> Result<Option<Self>, TlsError> {
        let alone = |setting, needs| Err(TlsError::MissingSetting { setting, needs });
        let (certificate, key) = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return alone("certificate", "key"),
            (None, Some(_)) => return alone("key", "certificate"),
            (None, None) if options.client_ca.is_some() => {
                return alone("client-ca", "certificate");
            }
            (None, None) => return Ok(None),
        };
        if options.client_ca.is_none() && options.client_revoked.is_some() {
            return alone("client-revoked", "client-ca");
        }
        if options.client_ca.is_none() && options.client_required {
            return alone("client-required", "client-ca");
        }
        let file = |setting, path: &Option<PathBuf>| {
            path.as_deref().map(|path| TlsFile::read(setting, path)).transpose()
        };
        Ok(Some(Self {
            certificate: TlsFile::read("certificate", certificate)?,
            key: TlsFile::read("key", key)?,
            client_ca: file("client-ca", &options.client_ca)?,
            client_revoked: file("client-revoked", &options.client_revoked)?,
        }))
    }

    /// Logs a warning if every user of the machine may read the private key.
    #[cfg(unix)]
    pub(super) fn warn_if_key_is_public(&self) {
        use std::os::unix::fs::MetadataExt;
        let path = &self.key.path;
        let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.mode() & 0o777);
        if mode & 0o004 != 0 {
            let (path, mode) = (path.display(), format_args!("{mode:04o}"));
            tracing::warn!(%path, %mode, "TLS key file is readable by every user; run `chmod o-rwx` on it");
        }
    }

    #[cfg(not(unix))]
    pub(super) const fn warn_if_key_is_public(&self) {}

    pub(super) fn digest(&self) -> Digest {
        let mut sum = sha2::Sha256::new();
        let files = [Some(&self.certificate), Some(&self.key)];
        for file in files.into_iter().chain([self.client_ca.as_ref(), self.client_revoked.as_ref()])
        {
            let bytes = file.map_or(&[][..], |file| &file.bytes);
            sum.update((bytes.len() as u64).to_be_bytes());
            sum.update(bytes);
        }
        sum.finalize().into()
    }

    /// The server's certificate chain.
    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        self.certificate.items("no certificate")
    }

    /// The private key. The error gives no detail: the file is a secret.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(&self.key.bytes);
        key.map_err(|_| self.key.unusable("holds no unencrypted private key in PEM".to_owned()))
    }

    /// Certificate authorities of clients.
    pub(super) fn client_roots(&self) -> Result<Option<RootCertStore>, TlsError> {
        let Some(file) = &self.client_ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in file.items::<CertificateDer<'static>>("no certificate")? {
            roots.add(certificate).map_err(|error| file.unusable(error.to_string()))?;
        }
        Ok(Some(roots))
    }

    /// Certificate revocation lists.
    pub(super) fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        self.client_revoked.as_ref().map_or(Ok(Vec::new()), |file| file.items("no revocation list"))
    }

    /// An error about the file of a setting.
    pub(super) fn unusable(&self, setting: &'static str, why: String) -> TlsError {
        let file = match setting {
            "certificate" => &self.certificate,
            "client-ca" => self.client_ca.as_ref().unwrap_or(&self.certificate),
            _ => &self.key,
        };
        file.unusable(why)
    }
}

impl TlsFile {
    fn read(setting: &'static str, path: &Path) -> Result<Self, TlsError> {
        let unreadable = |source| TlsError::Unreadable { setting, path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Ok(Self { setting, path: path.to_owned(), bytes })
    }

    /// All items of one type; an empty file is an error.
    fn items<T: PemObject>(&self, none: &str) -> Result<Vec<T>, TlsError> {
        let items: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&self.bytes).collect();
        let items = items.map_err(|_| self.unusable("is not PEM".to_owned()))?;
        if items.is_empty() {
            Err(self.unusable(format!("holds {none} in PEM")))
        } else {
            Ok(items)
        }
    }

    fn unusable(&self, why: String) -> TlsError {
        TlsError::Unusable { setting: self.setting, path: self.path.clone(), why }
    }
}
