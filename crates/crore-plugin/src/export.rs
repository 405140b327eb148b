//! Implements the C table of [`export!`](crate::export!) on top of the [`Plugin`] trait.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::abi::{self, AbiResult, BorrowedBytes, Buffer, HostContext, PluginTable};
use crate::{Context, Error, Plugin};

/// Exports a plugin. A library exports exactly one.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        /// The entry point that crore looks up.
        #[unsafe(no_mangle)]
        pub extern "C" fn crore_plugin_v1() -> *const $crate::abi::PluginTable {
            const TABLE: &$crate::abi::PluginTable = &$crate::export::table::<$plugin>();
            TABLE
        }
    };
}

/// The function table of a plugin.
pub const fn table<P: Plugin>() -> PluginTable {
    PluginTable {
        abi: abi::VERSION,
        name: Some(name::<P>),
        create: Some(create::<P>),
        run: Some(run::<P>),
        cancel: None,
        destroy: Some(destroy::<P>),
        free_result: Some(free_result),
    }
}

extern "C" fn name<P: Plugin>() -> BorrowedBytes {
    catch_unwind(P::name).map_or(BorrowedBytes::of(b""), |name| BorrowedBytes::of(name.as_bytes()))
}

extern "C" fn create<P: Plugin>(_: *const HostContext) -> *mut c_void {
    let instance = catch_unwind(|| Box::new(P::default()));
    instance.map_or(ptr::null_mut(), |plugin| Box::into_raw(plugin).cast())
}

unsafe extern "C" fn destroy<P: Plugin>(instance: *mut c_void) {
    // SAFETY: the host passes the pointer from `create`, once, and does not use it again.
    let plugin = unsafe { Box::from_raw(instance.cast::<P>()) };
    // A panic in a destructor cannot be reported.
    _ = catch_unwind(AssertUnwindSafe(|| drop(plugin)));
}

unsafe extern "C" fn run<P: Plugin>(
    instance: *mut c_void,
    argument: BorrowedBytes,
    context: *const HostContext,
    outcome: *mut AbiResult,
) -> u32 {
    // SAFETY: the host passes the pointer from `create`, and runs one job at a time.
    let plugin = unsafe { &mut *instance.cast::<P>() };
    // SAFETY: the host lends the context and the outcome until this returns.
    let (context, outcome) = unsafe { (Context::new(&*context), &mut *outcome) };
    // SAFETY: the host lends this many bytes until this returns.
    let argument = unsafe { borrowed(&argument) };
    // The plugin is used again after a panic, like a value behind a poisoned lock: only its own state may be
    // inconsistent.
    let result = catch_unwind(AssertUnwindSafe(|| plugin.run(argument, &context)));
    match result.unwrap_or_else(|panic| Err(Error::other(panic_message(&*panic)))) {
        Ok(items) => {
            (outcome.items, outcome.count) = leak_items(items);
            abi::OK
        }
        Err(error) => {
            outcome.error = leak_bytes(error.text.into_bytes());
            error.class.as_abi()
        }
    }
}

/// # Safety
///
/// `len` bytes must be readable at `data` for as long as they are borrowed.
unsafe fn borrowed(bytes: &BorrowedBytes) -> &[u8] {
    if bytes.data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise; a length from the host fits this machine's memory.
    unsafe { std::slice::from_raw_parts(bytes.data, bytes.len as usize) }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the plugin panicked: {}", text.unwrap_or("no message"))
}

fn leak_items(items: Vec<Vec<u8>>) -> (*mut Buffer, u64) {
    let buffers: Box<[Buffer]> = items.into_iter().map(leak_bytes).collect();
    let count = buffers.len() as u64;
    (Box::into_raw(buffers).cast(), count)
}

fn leak_bytes(bytes: Vec<u8>) -> Buffer {
    let bytes = bytes.into_boxed_slice();
    let len = bytes.len() as u64;
    Buffer { data: Box::into_raw(bytes).cast(), len }
}

unsafe extern "C" fn free_result(outcome: *mut AbiResult) {
    // SAFETY: the host passes the outcome that `run` filled, once.
    let outcome = unsafe { &mut *outcome };
    if !outcome.items.is_null() {
        let items = ptr::slice_from_raw_parts_mut(outcome.items, outcome.count as usize);
        // SAFETY: it came from `leak_items`, with this length.
        let items = unsafe { Box::from_raw(items) };
        // SAFETY: each came from `leak_bytes`.
        items.iter().for_each(|item| unsafe { free_bytes(*item) });
    }
    // SAFETY: it is empty, or came from `leak_bytes`.
    unsafe { free_bytes(outcome.error) };
    *outcome = AbiResult::EMPTY;
}

/// # Safety
///
/// `buffer` must be empty, or come from [`leak_bytes`] and not have been freed.
unsafe fn free_bytes(buffer: Buffer) {
    if !buffer.data.is_null() {
        let bytes = ptr::slice_from_raw_parts_mut(buffer.data, buffer.len as usize);
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorClass;

    /// Echoes its argument word by word; some arguments trigger other behavior.
    #[derive(Default)]
    struct Echo {
        runs: usize,
    }

    impl Plugin for Echo {
        fn name() -> &'static str {
            "Echo"
        }

        fn run(&mut self, argument: &[u8], context: &Context<'_>) -> Result<Vec<Vec<u8>>, Error> {
            self.runs += 1;
            match argument {
                b"again" => Err(Error::again("later")),
                b"fatal" => Err(Error { class: ErrorClass::Fatal, text: String::new() }),
                b"panic" => panic!("{} runs", self.runs),
                b"cancelled" => Ok(vec![context.is_cancelled().to_string().into()]),
                b"" => Ok(Vec::new()),
                words => Ok(words.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()),
            }
        }
    }

    unsafe extern "C" fn yes(_: *mut c_void) -> u32 {
        1
    }

    unsafe extern "C" fn ignore_log(_: *mut c_void, _: BorrowedBytes) {}

    /// Status code, items and error.
    type Ran = (u32, Vec<Vec<u8>>, String);

    /// Runs a job like a host.
    fn run_as_host(table: &PluginTable, this: *mut c_void, argument: &[u8]) -> Ran {
        let context = HostContext { host: ptr::null_mut(), is_cancelled: yes, log: ignore_log };
        let mut outcome = AbiResult::EMPTY;
        let copy = |buffer: &Buffer| {
            let bytes = BorrowedBytes { data: buffer.data, len: buffer.len };
            // SAFETY: the plugin returned it and has not freed it.
            unsafe { borrowed(&bytes) }.to_vec()
        };
        // SAFETY: as the interface requires.
        let status = unsafe {
            table.run.unwrap()(this, BorrowedBytes::of(argument), &context, &mut outcome)
        };
        let items = if outcome.items.is_null() {
            Vec::new()
        } else {
            // SAFETY: the plugin returned this many.
            unsafe { std::slice::from_raw_parts(outcome.items, outcome.count as usize) }
                .iter()
                .map(copy)
                .collect()
        };
        let error = String::from_utf8(copy(&outcome.error)).unwrap();
        // SAFETY: called once, and nothing of it is used afterwards.
        unsafe { table.free_result.unwrap()(&mut outcome) };
        (status, items, error)
    }

    #[test]
    fn a_plugin_behaves_the_same_through_its_c_table() {
        let table = table::<Echo>();
        // SAFETY: as the interface requires.
        let name = unsafe { table.name.unwrap()() };
        // SAFETY: the name is static.
        assert_eq!((table.abi, unsafe { borrowed(&name) }), (1, &b"Echo"[..]));
        // SAFETY: as the interface requires; this plugin does not use the context.
        let this = unsafe { table.create.unwrap()(ptr::null()) };
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let nothing = String::new;
        let cases: [(&[u8], Ran); 7] = [
            (b"a  b", (abi::OK, words(&["a", "", "b"]), nothing())),
            (b"", (abi::OK, words(&[]), nothing())),
            (b"again", (abi::AGAIN, words(&[]), "later".into())),
            (b"fatal", (abi::FATAL, words(&[]), nothing())),
            (b"panic", (abi::OTHER, words(&[]), "the plugin panicked: 5 runs".into())),
            (b"cancelled", (abi::OK, words(&["true"]), nothing())),
            (b"after a panic", (abi::OK, words(&["after", "a", "panic"]), nothing())),
        ];
        for (argument, expected) in cases {
            assert_eq!(run_as_host(&table, this, argument), expected, "{argument:?}");
        }
        // SAFETY: called once, and the instance is not used afterwards.
        unsafe { table.destroy.unwrap()(this) };
    }
}
