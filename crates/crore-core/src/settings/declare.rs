//! The macros that declare sections and enumerated values.

use super::{SettingKey, Shape};

/// Declares a section of the configuration, or a part of one.
///
/// The documentation of the struct and of its keys is shown to operators; lines with `//!` appear in rustdoc
/// only. There are four kinds of fields:
///
/// ```
/// use crore_core::settings::section;
/// use crore_core::units::Size;
/// use crore_core::Span;
///
/// section! {
///     /// File storage.
///     pub struct Options: Eq = "files" {
///         //! Passed to every call that opens a file.
///
///         /// A key: its type is a [`Setting`](crore_core::settings::Setting), its default is written as in a file.
///         keep_for: Span = "24h",
///         /// A key with another name (`max-size`) or type than its field: read as that type, then converted.
///         bytes: u64 as max_size: Size = "64MiB",
///         /// A key without a default.
///         title: Option<String> = none,
///         /// Not a key: set by code only. The default is an expression.
///         seed: u64 => 7,
///         /// A part: its keys belong to the same section.
///         ..rotation: Rotation,
///     }
/// }
///
/// section! {
///     /// File rotation.
///     pub struct Rotation: Eq = "files" {
///         /// Rotation interval.
///         every: Span = "1d",
///     }
/// }
///
/// let options = Options { seed: 8, ..Options::default() };
/// assert_eq!((options.bytes, options.rotation.every), (64 << 20, Span::from_secs(86_400)));
/// ```
///
/// Keys are displayed in the order of their declaration, those of a part at its position. To change the order, list
/// all keys after the struct: `shown every, keep_for, max_size, title;`.
///
/// `Debug`, `Clone` and `PartialEq` are derived, and the traits listed after the name of the struct.
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $name:ident $(: $($derive:ident),+)? = $section:literal {
            $($lines:tt)+
        }
        $(shown $($shown:ident),+;)?
    ) => {
        $crate::section! {
            @lines
            {
                [$($about)+] [] $vis $name [$($($derive)+)?] $section
                [$($($shown)+)?]
            }
            []
            $($lines)+
        }
    };

    (
        @lines { $about:tt [$($more:literal)*] $($head:tt)+ } []
        #![doc = $doc:literal] $($rest:tt)*
    ) => {
        $crate::section! { @lines { $about [$($more)* $doc] $($head)+ } [] $($rest)* }
    };
    (
        @lines $head:tt [$($done:tt)*]
        $(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:tt, $($rest:tt)*
    ) => {
        $crate::section! {
            @lines $head [$($done)* { [$($doc)+] $field ($kind) key $field ($kind) $default }]
            $($rest)*
        }
    };
    (
        @lines $head:tt [$($done:tt)*]
        $(#[doc = $doc:literal])+
        $field:ident: $kind:ty as $key:ident: $read:ty = $default:tt, $($rest:tt)*
    ) => {
        $crate::section! {
            @lines $head [$($done)* { [$($doc)+] $field ($kind) converted $key ($read) $default }]
            $($rest)*
        }
    };
    (
        @lines $head:tt [$($done:tt)*]
        $(#[doc = $doc:literal])+ $field:ident: $kind:ty => $value:expr, $($rest:tt)*
    ) => {
        $crate::section! {
            @lines $head [$($done)* { [$($doc)+] $field ($kind) set ($value) }] $($rest)*
        }
    };
    (
        @lines $head:tt [$($done:tt)*]
        $(#[doc = $doc:literal])+ ..$field:ident: $part:ty, $($rest:tt)*
    ) => {
        $crate::section! {
            @lines $head [$($done)* { [$($doc)+] $field ($part) part ($part) }] $($rest)*
        }
    };
    (
        @lines
        {
            [$($about:literal)+] [$($more:literal)*] $vis:vis $name:ident [$($derive:ident)*]
            $section:literal [$($shown:ident)*]
        }
        [$({ [$($doc:literal)+] $field:ident ($kind:ty) $($how:tt)+ })+]
    ) => {
        $(#[doc = $about])+
        #[doc = ""]
        $(#[doc = $more])*
        #[derive(Debug, Clone, PartialEq, $($derive),*)]
        $vis struct $name {
            $($(#[doc = $doc])+ $vis $field: $kind,)+
        }

        impl $crate::settings::Section for $name {
            const INFO: $crate::settings::SectionSchema = {
                const GROUPS: &[&[$crate::settings::SettingKey]] =
                    &[$($crate::section!(@keys $section [$($doc)+] $($how)+)),+];
                const KEYS: [$crate::settings::SettingKey; $crate::settings::count(GROUPS)] =
                    $crate::settings::join_keys($section, GROUPS, &[$(stringify!($shown)),*]);
                $crate::settings::SectionSchema { name: $section, about: &[$($about),+], keys: &KEYS }
            };

            fn read(values: &mut dyn $crate::settings::ValueSource) -> Self {
                Self {
                    $($field: $crate::section!(@read values $section [$($doc)+] $($how)+),)+
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::settings::Section>::read(&mut $crate::settings::Defaults)
            }
        }
    };

    (@keys $section:literal $docs:tt set $value:tt) => {
        &[]
    };
    (@keys $section:literal $docs:tt part ($part:ty)) => {
        <$part as $crate::settings::Section>::INFO.keys
    };
    (@keys $section:literal $docs:tt $sort:ident $key:ident $read:tt $default:tt) => {
        &[$crate::section!(@key $section $docs $key $read $default)]
    };

    (@read $values:ident $section:literal $docs:tt set ($value:expr)) => {
        $value
    };
    (@read $values:ident $section:literal $docs:tt part ($part:ty)) => {
        <$part as $crate::settings::Section>::read($values)
    };
    (@read $values:ident $section:literal $docs:tt key $key:ident ($read:ty) $default:tt) => {
        $crate::settings::read::<$read>(
            $values,
            &$crate::section!(@key $section $docs $key ($read) $default),
        )
    };
    (@read $values:ident $section:literal $docs:tt converted $key:ident $read:tt $default:tt) => {
        $crate::section!(@read $values $section $docs key $key $read $default).into()
    };

    (@key $section:literal [$($doc:literal)+] $key:ident ($read:ty) $default:tt) => {
        $crate::settings::SettingKey {
            section: $section,
            ident: stringify!($key),
            about: &[$($doc),+],
            shape: <$read as $crate::settings::Setting>::SHAPE,
            default: $crate::section!(@default $default),
        }
    };
    (@default none) => {
        None
    };
    (@default $text:literal) => {
        Some($text)
    };
}

/// Declares a setting that accepts one of a fixed set of words.
#[macro_export]
macro_rules! one_of {
    (
        $(#[doc = $about:literal])+
        $vis:vis enum $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $crate::settings::Setting for $name {
            const SHAPE: $crate::settings::Shape =
                $crate::settings::Shape::OneOf(&[$($word),+]);

            fn read(given: &$crate::settings::SettingValue) -> Result<Self, String> {
                match given.shown().as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("expected one of: {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

/// Total number of keys in the groups.
#[doc(hidden)]
pub const fn count(groups: &[&[SettingKey]]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < groups.len() {
        n += groups[i].len();
        i += 1;
    }
    n
}

/// Joins the keys of the groups of one section, in the order of `shown` unless it is empty. An inconsistency is a
/// compile error.
#[doc(hidden)]
pub const fn join_keys<const N: usize>(
    section: &str,
    groups: &[&[SettingKey]],
    shown: &[&str],
) -> [SettingKey; N] {
    let none = SettingKey { section: "", ident: "", about: &[], shape: Shape::Text, default: None };
    let (mut keys, mut n, mut i) = ([none; N], 0, 0);
    assert!(shown.is_empty() || shown.len() == N, "`shown` must list every key once");
    while i < groups.len() {
        let mut j = 0;
        while j < groups[i].len() {
            let key = groups[i][j];
            assert!(is_same(key.section, section), "a part must have the section of its parent");
            keys[if shown.is_empty() { n } else { shown_index(shown, key.ident) }] = key;
            (n, j) = (n + 1, j + 1);
        }
        i += 1;
    }
    let mut i = 0;
    while i < N {
        assert!(!is_same(keys[i].section, ""), "`shown` lists a key twice");
        i += 1;
    }
    keys
}

const fn shown_index(shown: &[&str], ident: &str) -> usize {
    let mut i = 0;
    while i < shown.len() {
        if is_same(shown[i], ident) {
            return i;
        }
        i += 1;
    }
    panic!("`shown` lacks a key")
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let (mut i, mut same) = (0, a.len() == b.len());
    while same && i < a.len() {
        same = a[i] == b[i];
        i += 1;
    }
    same
}
