//! The integration tests of vpfs, in one program: linking dozens takes longer than running them.

mod guides;
