//! The C interface of `crore_plugin.h`, which documents the ownership rules.

use std::ffi::c_void;

/// Version of the interface.
pub const VERSION: u32 = 1;

/// The symbol that a plugin exports; its type is [`EntryPoint`].
pub const SYMBOL: &str = "crore_plugin_v1";

/// Success.
pub const OK: u32 = 0;
/// Temporary failure: a retry may succeed.
pub const AGAIN: u32 = 1;
/// Permanent failure: a retry would fail too.
pub const OTHER: u32 = 2;
/// The job cannot run at all.
pub const FATAL: u32 = 3;

/// The type of [`SYMBOL`]. Returns a table that stays valid while the library is loaded.
pub type EntryPoint = unsafe extern "C" fn() -> *const PluginTable;

/// Borrowed bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BorrowedBytes {
    /// First byte; may be null if `len` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub len: u64,
}

impl BorrowedBytes {
    /// Borrows a slice.
    pub const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() as u64 }
    }
}

/// Bytes that the plugin owns until [`PluginTable::free_result`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// First byte; may be null if `len` is 0.
    pub data: *mut u8,
    /// Number of bytes.
    pub len: u64,
}

impl Buffer {
    /// No bytes.
    pub const NONE: Self = Self { data: std::ptr::null_mut(), len: 0 };
}

/// The result of a run. The host owns the structure, the plugin owns what it points at.
#[repr(C)]
#[derive(Debug)]
pub struct AbiResult {
    /// The first item.
    pub items: *mut Buffer,
    /// Number of items.
    pub count: u64,
    /// The error message.
    pub error: Buffer,
}

impl AbiResult {
    /// The initial value that a plugin receives.
    pub const EMPTY: Self = Self { items: std::ptr::null_mut(), count: 0, error: Buffer::NONE };
}

/// The context of a run.
#[repr(C)]
#[derive(Debug)]
pub struct HostContext {
    /// Private data of the host.
    pub host: *mut c_void,
    /// Whether the run must stop.
    pub is_cancelled: unsafe extern "C" fn(host: *mut c_void) -> u32,
    /// Writes a line to the job's log.
    pub log: unsafe extern "C" fn(host: *mut c_void, text: BorrowedBytes),
}

/// The functions of a plugin. Only [`PluginTable::cancel`] may be null; all are optional here so that a host can
/// check them before the first call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PluginTable {
    /// Version that the plugin was built for.
    pub abi: u32,
    /// Returns the name of the plugin.
    pub name: Option<unsafe extern "C" fn() -> BorrowedBytes>,
    /// Creates an instance.
    pub create: Option<unsafe extern "C" fn(context: *const HostContext) -> *mut c_void>,
    /// Runs a job.
    pub run: Option<RunFunction>,
    /// Asks a run to stop.
    pub cancel: Option<unsafe extern "C" fn(instance: *mut c_void)>,
    /// Frees an instance.
    pub destroy: Option<unsafe extern "C" fn(instance: *mut c_void)>,
    /// Frees the result of a run.
    pub free_result: Option<unsafe extern "C" fn(outcome: *mut AbiResult)>,
}

/// Runs a job and returns one of the four status codes.
pub type RunFunction = unsafe extern "C" fn(
    instance: *mut c_void,
    argument: BorrowedBytes,
    context: *const HostContext,
    outcome: *mut AbiResult,
) -> u32;
