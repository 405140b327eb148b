//! Loads a library and checks its function table.

use std::error::Error;
use std::ffi::c_void;
use std::mem;
use std::path::Path;

use crore_plugin::abi::{self, AbiResult, BorrowedBytes, EntryPoint, HostContext, RunFunction};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Maximum length of a plugin's name in bytes.
const MAX_NAME_BYTES: u64 = 255;

/// The functions of a plugin, checked to be present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) create: unsafe extern "C" fn(*const HostContext) -> *mut c_void,
    pub(crate) run: RunFunction,
    pub(crate) cancel: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) destroy: unsafe extern "C" fn(*mut c_void),
    pub(crate) free_result: unsafe extern "C" fn(*mut AbiResult),
}

/// Loads a library for the rest of the process's life. Returns its name and its functions.
///
/// # Errors
///
/// Why the library cannot be used as a plugin.
pub(crate) fn load(path: &Path) -> Result<(String, Functions), String> {
    let shown = path.display();
    // SAFETY: loading runs the library's initializers. This process exists only to run the plugin.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| {
        let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        format!("`{shown}` cannot be loaded: {why}")
    })?;
    // SAFETY: the symbol's name includes the version of the interface, which determines its type.
    let entry = unsafe { library.get::<EntryPoint>(abi::SYMBOL.as_bytes()) };
    let entry = entry
        .map_err(|_| format!("`{shown}` is not a plugin: it does not export `{}`", abi::SYMBOL))?;
    // SAFETY: as the interface requires.
    let table = unsafe { entry() };
    if table.is_null() || !table.is_aligned() {
        return Err(format!("`{shown}` is not a plugin: it returned no function table"));
    }
    // SAFETY: in every version of the table, the version comes first.
    let version = unsafe { (&raw const (*table).abi).read() };
    if version != abi::VERSION {
        let ours = abi::VERSION;
        let message =
            format!("`{shown}` has version {version} of the plugin interface, expected {ours}");
        return Err(message);
    }
    // SAFETY: the version is ours, so the size is that of our table.
    let table = unsafe { *table };
    let lacks = |function| format!("`{shown}` is not a plugin: it has no function `{function}`");
    let name = table.name.ok_or_else(|| lacks("name"))?;
    // SAFETY: as the interface requires.
    let name = plugin_name(unsafe { name() })
        .map_err(|why| format!("`{shown}` is not a plugin: {why}"))?;
    let functions = Functions {
        create: table.create.ok_or_else(|| lacks("create"))?,
        run: table.run.ok_or_else(|| lacks("run"))?,
        cancel: table.cancel,
        destroy: table.destroy.ok_or_else(|| lacks("destroy"))?,
        free_result: table.free_result.ok_or_else(|| lacks("free_result"))?,
    };
    // Never unloaded: its own threads may still run.
    mem::forget(library);
    Ok((name, functions))
}

fn plugin_name(name: BorrowedBytes) -> Result<String, String> {
    if name.data.is_null() || name.len == 0 || name.len > MAX_NAME_BYTES {
        return Err(format!("its name has {} bytes, not 1 to {MAX_NAME_BYTES}", name.len));
    }
    // SAFETY: the library lends this many bytes while it is loaded.
    let bytes = unsafe { std::slice::from_raw_parts(name.data, name.len as usize) };
    String::from_utf8(bytes.to_vec()).map_err(|_| "its name is not UTF-8".to_owned())
}
