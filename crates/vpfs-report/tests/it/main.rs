//! The integration tests of vpfs-report, in one program: linking dozens takes longer than running them.

mod first_page;
mod report;
