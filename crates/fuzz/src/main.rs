//! The fuzzer, with the target that `TIDEGATE_FUZZ_TARGET` names.

#![no_main]
#![expect(unsafe_code, reason = "libFuzzer calls a symbol by its name")]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::{Target, target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TIDEGATE_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("TIDEGATE_FUZZ_TARGET names no target: `{name}`"))
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
