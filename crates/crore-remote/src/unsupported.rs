//! Features that these stores do not implement yet: they are refused, because ignoring them would break a promise.

use crore_core::{Code, Invalid};
use crore_store::Error;
use crore_store::registry::{Define, DefineAction, RegistryValue};

/// Refuses definitions that the store cannot put into effect.
pub(crate) fn check_definitions(definitions: &[Define]) -> Result<(), Error> {
    let is_shared = |define: &Define| matches!(&define.action, DefineAction::Set(RegistryValue::Queue(queue)) if queue.fair.is_some());
    match definitions.iter().find(|define| is_shared(define)) {
        None => Ok(()),
        Some(define) => {
            let message = format!(
                "queue `{}`: this store cannot share a queue; use the embedded store",
                define.name
            );
            Err(Invalid::new(Code::FairField, "fair", message).into())
        }
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::panic, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crore_core::Name;
    use crore_core::fair::{FairField, FairShare};
    use crore_store::registry::QueueSettings;

    use super::*;

    #[test]
    fn a_shared_queue_is_refused_and_named() {
        let by = FairField::parse("payload.tenant").expect("a field");
        let fair = Some(Arc::new(FairShare { by, weights: BTreeMap::new() }));
        let name = Name::new("name", "mail").expect("a name");
        let define = |queue| Define::set(name.clone(), RegistryValue::Queue(queue));
        assert!(check_definitions(&[define(QueueSettings::default())]).is_ok());
        let shared = define(QueueSettings { fair, ..QueueSettings::default() });
        let refused = check_definitions(&[define(QueueSettings::default()), shared]);
        let Err(Error::Invalid(invalid)) = refused else { panic!("accepted: {refused:?}") };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::FairField, "fair"));
        assert!(invalid.message.contains("`mail`"), "{}", invalid.message);
    }
}
