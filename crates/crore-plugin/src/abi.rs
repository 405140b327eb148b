//! The interface in C, as `crore_plugin.h` has it; who owns what is said there.

use std::ffi::c_void;

/// The version of the interface.
pub const VERSION: u32 = 1;

/// The symbol that a plugin exports, of the type [`Entry`].
pub const SYMBOL: &str = "crore_plugin_v1";

/// It went well.
pub const OK: u32 = 0;
/// It may go better next time.
pub const AGAIN: u32 = 1;
/// It failed, and would again.
pub const OTHER: u32 = 2;
/// It cannot be run at all.
pub const FATAL: u32 = 3;

/// What [`SYMBOL`] names: it gives a table that stays valid as long as the library is loaded.
pub type Entry = unsafe extern "C" fn() -> *const Table;

/// Bytes that are lent.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Bytes {
    /// Where they begin; may be null if there are none.
    pub data: *const u8,
    /// How many there are.
    pub len: u64,
}

impl Bytes {
    /// Lends bytes.
    pub const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() as u64 }
    }
}

/// Bytes that the plugin owns until [`Table::free_result`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Where they begin; may be null if there are none.
    pub data: *mut u8,
    /// How many there are.
    pub len: u64,
}

impl Buffer {
    /// No bytes.
    pub const NONE: Self = Self { data: std::ptr::null_mut(), len: 0 };
}

/// What a run gives: the structure is the host's, what it points at is the plugin's.
#[repr(C)]
#[derive(Debug)]
pub struct Outcome {
    /// The first item.
    pub items: *mut Buffer,
    /// How many items there are.
    pub count: u64,
    /// What went wrong.
    pub error: Buffer,
}

impl Outcome {
    /// As a plugin is handed it.
    pub const EMPTY: Self = Self { items: std::ptr::null_mut(), count: 0, error: Buffer::NONE };
}

/// What surrounds a run.
#[repr(C)]
#[derive(Debug)]
pub struct Surroundings {
    /// The host's own.
    pub host: *mut c_void,
    /// Whether the run is to stop.
    pub is_cancelled: unsafe extern "C" fn(host: *mut c_void) -> u32,
    /// Says a line of the log.
    pub log: unsafe extern "C" fn(host: *mut c_void, text: Bytes),
}

/// The functions of a plugin. Each but [`Table::cancel`] has to be there; they are optional here so
/// that a host can look before it calls.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The version that it was built for.
    pub abi: u32,
    /// What it is called.
    pub name: Option<unsafe extern "C" fn() -> Bytes>,
    /// Makes an instance.
    pub create: Option<unsafe extern "C" fn(context: *const Surroundings) -> *mut c_void>,
    /// Runs a job.
    pub run: Option<Run>,
    /// Asks a run to stop.
    pub cancel: Option<unsafe extern "C" fn(instance: *mut c_void)>,
    /// Frees an instance.
    pub destroy: Option<unsafe extern "C" fn(instance: *mut c_void)>,
    /// Frees what a run gave.
    pub free_result: Option<unsafe extern "C" fn(outcome: *mut Outcome)>,
}

/// Runs a job, and returns one of the four words.
pub type Run = unsafe extern "C" fn(
    instance: *mut c_void,
    argument: Bytes,
    context: *const Surroundings,
    outcome: *mut Outcome,
) -> u32;
