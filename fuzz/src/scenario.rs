//! The check of scenarios, on any text: it panics if an invariant is violated, never because of an invalid scenario.

use vpfs_sim::Scenario;

use super::config::check;

/// Text is a scenario, or has problems. It is read but not simulated: how long that takes is up to the user.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Scenario::parse("f", text) {
        Ok(scenario) => assert!(!scenario.policies.is_empty(), "there is something to simulate"),
        Err(problems) => {
            assert!(!problems.list.is_empty(), "an error says what is wrong");
            check(&problems);
        }
    }
}
