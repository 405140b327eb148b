//! A library, loaded and looked at before anything in it is used.

use std::error::Error;
use std::ffi::c_void;
use std::mem;
use std::path::Path;

use crore_plugin::abi::{self, Bytes, Entry, Outcome, Run, Surroundings};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Bytes of a plugin's name.
const MOST_NAME: u64 = 255;

/// The functions of a plugin, each of which is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) create: unsafe extern "C" fn(*const Surroundings) -> *mut c_void,
    pub(crate) run: Run,
    pub(crate) cancel: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) destroy: unsafe extern "C" fn(*mut c_void),
    pub(crate) free_result: unsafe extern "C" fn(*mut Outcome),
}

/// Loads a library for the rest of the process's life, and gives its name and its functions.
///
/// # Errors
///
/// Why it is no plugin that can be used, in words.
pub(crate) fn load(path: &Path) -> Result<(String, Functions), String> {
    let shown = path.display();
    // SAFETY: loading runs the library's own initialisers, as everything that a plugin does: this
    // process is there for it, and nothing else of value is in it.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| {
        let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        format!("`{shown}` cannot be loaded: {why}")
    })?;
    // SAFETY: the symbol's name says its type; it carries the version of the interface.
    let entry = unsafe { library.get::<Entry>(abi::SYMBOL.as_bytes()) };
    let entry =
        entry.map_err(|_| format!("`{shown}` is no plugin: it exports no `{}`", abi::SYMBOL))?;
    // SAFETY: as the interface has it.
    let table = unsafe { entry() };
    if table.is_null() || !table.is_aligned() {
        return Err(format!("`{shown}` is no plugin: it gives no table of functions"));
    }
    // SAFETY: the version comes first in every version of the table.
    let version = unsafe { (&raw const (*table).abi).read() };
    if version != abi::VERSION {
        let ours = abi::VERSION;
        let message =
            format!("`{shown}` speaks version {version} of the plugin interface, not {ours}");
        return Err(message);
    }
    // SAFETY: it is of our version, so it is as large as our table.
    let table = unsafe { *table };
    let lacks = |function| format!("`{shown}` is no plugin: it has no function `{function}`");
    let name = table.name.ok_or_else(|| lacks("name"))?;
    // SAFETY: as the interface has it.
    let name = told(unsafe { name() }).map_err(|why| format!("`{shown}` is no plugin: {why}"))?;
    let functions = Functions {
        create: table.create.ok_or_else(|| lacks("create"))?,
        run: table.run.ok_or_else(|| lacks("run"))?,
        cancel: table.cancel,
        destroy: table.destroy.ok_or_else(|| lacks("destroy"))?,
        free_result: table.free_result.ok_or_else(|| lacks("free_result"))?,
    };
    // Never unloaded: threads of its own may still run in it.
    mem::forget(library);
    Ok((name, functions))
}

fn told(name: Bytes) -> Result<String, String> {
    if name.data.is_null() || name.len == 0 || name.len > MOST_NAME {
        return Err(format!("its name has {} bytes, not 1 to {MOST_NAME}", name.len));
    }
    // SAFETY: the library lends so many bytes for as long as it is loaded.
    let bytes = unsafe { std::slice::from_raw_parts(name.data, name.len as usize) };
    String::from_utf8(bytes.to_vec()).map_err(|_| "its name is not UTF-8".to_owned())
}
