//! Filters as a whole: their text, and what they match.

mod matching;
mod text;
