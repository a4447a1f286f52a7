#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vpfs_fuzz::nfs_session(data));
