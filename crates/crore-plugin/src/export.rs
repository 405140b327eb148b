//! From the trait to the table: what [`export!`](crate::export!) puts behind a plugin's symbol.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::abi::{self, Buffer, Bytes, Outcome, Surroundings, Table};
use crate::{Context, Error, Plugin};

/// Exports a plugin: a library has one.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        /// What crore asks the library for.
        #[unsafe(no_mangle)]
        pub extern "C" fn crore_plugin_v1() -> *const $crate::abi::Table {
            const TABLE: &$crate::abi::Table = &$crate::export::table::<$plugin>();
            TABLE
        }
    };
}

/// The table of a plugin.
pub const fn table<P: Plugin>() -> Table {
    Table {
        abi: abi::VERSION,
        name: Some(name::<P>),
        create: Some(create::<P>),
        run: Some(run::<P>),
        cancel: None,
        destroy: Some(destroy::<P>),
        free_result: Some(free_result),
    }
}

extern "C" fn name<P: Plugin>() -> Bytes {
    catch_unwind(P::name).map_or(Bytes::of(b""), |name| Bytes::of(name.as_bytes()))
}

extern "C" fn create<P: Plugin>(_: *const Surroundings) -> *mut c_void {
    let made = catch_unwind(|| Box::new(P::default()));
    made.map_or(ptr::null_mut(), |plugin| Box::into_raw(plugin).cast())
}

unsafe extern "C" fn destroy<P: Plugin>(instance: *mut c_void) {
    // SAFETY: the host passes what `create` gave, once, and uses it no more.
    let plugin = unsafe { Box::from_raw(instance.cast::<P>()) };
    // Nobody is left to be told of a panic in a destructor.
    _ = catch_unwind(AssertUnwindSafe(|| drop(plugin)));
}

unsafe extern "C" fn run<P: Plugin>(
    instance: *mut c_void,
    argument: Bytes,
    context: *const Surroundings,
    outcome: *mut Outcome,
) -> u32 {
    // SAFETY: the host passes what `create` gave, and runs one job at a time.
    let plugin = unsafe { &mut *instance.cast::<P>() };
    // SAFETY: the host lends the context, and the outcome for us to fill, until this returns.
    let (context, outcome) = unsafe { (Context::new(&*context), &mut *outcome) };
    // SAFETY: the host lends so many bytes until this returns.
    let argument = unsafe { lent(&argument) };
    // After a panic the plugin is used again, as any value behind a lock would be: what it keeps is
    // its own affair, and nothing of ours depends on it.
    let ran = catch_unwind(AssertUnwindSafe(|| plugin.run(argument, &context)));
    match ran.unwrap_or_else(|panic| Err(Error::other(said(&*panic)))) {
        Ok(items) => {
            (outcome.items, outcome.count) = give_items(items);
            abi::OK
        }
        Err(error) => {
            outcome.error = give(error.text.into_bytes());
            error.class.as_abi()
        }
    }
}

/// # Safety
///
/// They are as many as they say, for as long as they are lent.
unsafe fn lent(bytes: &Bytes) -> &[u8] {
    if bytes.data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise; the host's lengths fit the memory of this machine.
    unsafe { std::slice::from_raw_parts(bytes.data, bytes.len as usize) }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the plugin panicked: {}", text.unwrap_or("no words"))
}

fn give_items(items: Vec<Vec<u8>>) -> (*mut Buffer, u64) {
    let buffers: Box<[Buffer]> = items.into_iter().map(give).collect();
    let count = buffers.len() as u64;
    (Box::into_raw(buffers).cast(), count)
}

fn give(bytes: Vec<u8>) -> Buffer {
    let bytes = bytes.into_boxed_slice();
    let len = bytes.len() as u64;
    Buffer { data: Box::into_raw(bytes).cast(), len }
}

unsafe extern "C" fn free_result(outcome: *mut Outcome) {
    // SAFETY: the host passes the outcome that `run` filled, once.
    let outcome = unsafe { &mut *outcome };
    if !outcome.items.is_null() {
        let items = ptr::slice_from_raw_parts_mut(outcome.items, outcome.count as usize);
        // SAFETY: it came from `give_items`, with this length.
        let items = unsafe { Box::from_raw(items) };
        // SAFETY: each came from `give`.
        items.iter().for_each(|item| unsafe { take_back(*item) });
    }
    // SAFETY: it is empty, or came from `give`.
    unsafe { take_back(outcome.error) };
    *outcome = Outcome::EMPTY;
}

/// # Safety
///
/// It is empty, or came from [`give`] and was not taken back before.
unsafe fn take_back(buffer: Buffer) {
    if !buffer.data.is_null() {
        let bytes = ptr::slice_from_raw_parts_mut(buffer.data, buffer.len as usize);
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    /// Echoes what it is given, word by word; a word may ask for something else.
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
                b"fatal" => Err(Error { class: Class::Fatal, text: String::new() }),
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

    unsafe extern "C" fn deaf(_: *mut c_void, _: Bytes) {}

    /// The word, the items and the error.
    type Ran = (u32, Vec<Vec<u8>>, String);

    /// Runs as the host would.
    fn run_as_host(table: &Table, this: *mut c_void, argument: &[u8]) -> Ran {
        let context = Surroundings { host: ptr::null_mut(), is_cancelled: yes, log: deaf };
        let mut outcome = Outcome::EMPTY;
        let copy = |buffer: &Buffer| {
            let bytes = Bytes { data: buffer.data, len: buffer.len };
            // SAFETY: the plugin gave it and has not taken it back.
            unsafe { lent(&bytes) }.to_vec()
        };
        // SAFETY: as the interface has it.
        let word = unsafe { table.run.unwrap()(this, Bytes::of(argument), &context, &mut outcome) };
        let items = if outcome.items.is_null() {
            Vec::new()
        } else {
            // SAFETY: the plugin gave so many.
            unsafe { std::slice::from_raw_parts(outcome.items, outcome.count as usize) }
                .iter()
                .map(copy)
                .collect()
        };
        let error = String::from_utf8(copy(&outcome.error)).unwrap();
        // SAFETY: once, and nothing of it is used any more.
        unsafe { table.free_result.unwrap()(&mut outcome) };
        (word, items, error)
    }

    #[test]
    fn a_plugin_behaves_through_its_table_as_it_does_in_rust() {
        let table = table::<Echo>();
        // SAFETY: as the interface has it.
        let name = unsafe { table.name.unwrap()() };
        // SAFETY: it is lent for ever.
        assert_eq!((table.abi, unsafe { lent(&name) }), (1, &b"Echo"[..]));
        // SAFETY: as the interface has it; it asks for no context.
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
        // SAFETY: once, and it is not used any more.
        unsafe { table.destroy.unwrap()(this) };
    }
}
