//! What vpfs.toml says in a case.

use super::super::proxies::AppConfig;
use super::Options;

/// The small application, the large one, and the table `[scheduler]`. `policy` is a name, optionally followed by lines
/// for that table, each after a ';'.
pub(super) fn of(options: &Options, policy: &str, cap: Option<&str>) -> ([AppConfig; 2], String) {
    let mut scheduler = policy.split(';').map(str::trim);
    let name = scheduler.next().unwrap_or_default();
    let (small, large) = options.weights;
    let mut lines = [format!("weight = {small}\n"), format!("weight = {large}\n")];
    if name == "two-level" {
        // It has targets instead of weights: set a target that just covers the demand of the small application.
        lines[0] += "server_target_rate = \"4MB/s\"\ndeadline = \"20ms\"\n";
    }
    options.small_app.iter().for_each(|line| lines[0] += &format!("{line}\n"));
    if let Some(cap) = cap {
        lines[1] += &format!("server_cap = \"{cap}\"\nburst = \"4MiB\"\n");
    }
    let [small, large] = lines;
    let app = |name: &str, lines| AppConfig { name: name.to_owned(), lines };
    let scheduler = scheduler.fold(format!("[scheduler]\npolicy = \"{name}\"\n"), |text, line| text + line + "\n");
    ([app("small", small), app("large", large)], scheduler)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;

    #[test]
    fn lines_belong_to_the_scheduler_or_to_an_application() {
        let options = parsed(&["--weights", "1:4", "--small-app", "uids = 7"]).unwrap();
        let ([small, large], scheduler) = of(&options, "sfq-d; depth = 4", None);
        assert_eq!(scheduler, "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\n");
        assert_eq!((&*small.lines, &*large.lines), ("weight = 1\nuids = 7\n", "weight = 4\n"));
        let ([_, large], _) = of(&options, "sfq-d-plus", Some("10MB/s"));
        assert_eq!(large.lines, "weight = 4\nserver_cap = \"10MB/s\"\nburst = \"4MiB\"\n");
    }
}
