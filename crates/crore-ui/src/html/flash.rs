//! The message after an action. The URL names it; it never contains text.

use crore_api::Fault;
use maud::{Markup, html};

use super::api_text::english;
use super::format::visible;
use crate::text::Texts;

macro_rules! flashes {
    ($($variant:ident $name:literal $text:ident,)+) => {
        /// A message after an action.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Flash {
            $($variant,)+
        }

        impl Flash {
            /// Its name in the URL.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The message with this name.
            pub(crate) fn of_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }

            const fn words(self, text: &Texts) -> &'static str {
                match self { $(Self::$variant => text.$text,)+ }
            }
        }
    };
}

flashes! {
    Retried "retried" flash_retried,
    Cancelled "cancelled" flash_cancelled,
    Deleted "deleted" flash_deleted,
    Changed "changed" flash_changed,
    Replayed "replayed" flash_replayed,
    Paused "paused" flash_paused,
    Resumed "resumed" flash_resumed,
    Draining "draining" flash_draining,
    Stopping "stopping" flash_stopping,
    Quiet "quiet" flash_quiet,
    WorkerResumed "worker-resumed" flash_worker_resumed,
    WorkerStopping "worker-stopping" flash_worker_stopping,
    Pushed "pushed" flash_pushed,
    Revoked "revoked" flash_revoked,
}

impl Flash {
    pub(crate) fn message(self, text: &Texts) -> Markup {
        html! { p.flash role="status" { (self.words(text)) } }
    }
}

/// Why a form was refused; the form is shown again below it.
pub(crate) fn fault_message(fault: &Fault) -> Markup {
    html! {
        p.flash.bad role="alert" {
            @if let Some(field) = &fault.problem().field { code { (visible(field)) } ": " }
            (english(&fault.problem().detail))
        }
    }
}
