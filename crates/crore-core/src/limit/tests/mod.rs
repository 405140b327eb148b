//! Limits as a whole: their text, what they match, and the keys that they make.

mod keys;
mod matching;
mod text;
