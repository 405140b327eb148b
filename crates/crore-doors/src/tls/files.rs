//! The files of certificates and keys.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use sha2::Digest as _;

use super::{Error, Options};

/// What stood in all files, in short.
pub(super) type Digest = [u8; 32];

/// What stands in the files.
pub(super) struct Files {
    certificate: File,
    key: File,
    client_ca: Option<File>,
    client_revoked: Option<File>,
}

struct File {
    setting: &'static str,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Files {
    /// Reads them; `None`: none are named.
    pub(super) fn read(options: &Options) -> Result<Option<Self>, Error> {
        let alone = |setting, needs| Err(Error::Alone { setting, needs });
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
            path.as_deref().map(|path| File::read(setting, path)).transpose()
        };
        Ok(Some(Self {
            certificate: File::read("certificate", certificate)?,
            key: File::read("key", key)?,
            client_ca: file("client-ca", &options.client_ca)?,
            client_revoked: file("client-revoked", &options.client_revoked)?,
        }))
    }

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

    /// The server's certificate, and those between it and its authority.
    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        self.certificate.items("no certificate")
    }

    /// Its key. What is wrong with it is not said in detail: the file is a secret.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        let key = PrivateKeyDer::from_pem_slice(&self.key.bytes);
        key.map_err(|_| {
            self.key.unusable("holds no private key in PEM, without a password".to_owned())
        })
    }

    /// The authorities of clients.
    pub(super) fn client_roots(&self) -> Result<Option<RootCertStore>, Error> {
        let Some(file) = &self.client_ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in file.items::<CertificateDer<'static>>("no certificate")? {
            roots.add(certificate).map_err(|error| file.unusable(error.to_string()))?;
        }
        Ok(Some(roots))
    }

    /// What the authorities of clients have revoked.
    pub(super) fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
        self.client_revoked
            .as_ref()
            .map_or(Ok(Vec::new()), |file| file.items("no list of revoked ones"))
    }

    /// An error about what stands in the file of a setting.
    pub(super) fn unusable(&self, setting: &'static str, why: String) -> Error {
        let file = match setting {
            "certificate" => &self.certificate,
            "client-ca" => self.client_ca.as_ref().unwrap_or(&self.certificate),
            _ => &self.key,
        };
        file.unusable(why)
    }
}

impl File {
    fn read(setting: &'static str, path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable { setting, path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Ok(Self { setting, path: path.to_owned(), bytes })
    }

    /// All items of one sort, of which there has to be one at least.
    fn items<T: PemObject>(&self, none: &str) -> Result<Vec<T>, Error> {
        let items: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&self.bytes).collect();
        let items = items.map_err(|_| self.unusable("is not PEM".to_owned()))?;
        if items.is_empty() {
            Err(self.unusable(format!("holds {none} in PEM")))
        } else {
            Ok(items)
        }
    }

    fn unusable(&self, why: String) -> Error {
        Error::Unusable { setting: self.setting, path: self.path.clone(), why }
    }
}
