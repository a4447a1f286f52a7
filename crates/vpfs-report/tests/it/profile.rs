//! The page of a profile of storage.

use vpfs_report::profile_report;
use vpfs_sim::model::device::DeviceProfile;
use vpfs_testbed::profile::{ModelStorage, Sweep};

#[test]
fn the_page_has_both_models_of_both_operations() {
    let mut storage = ModelStorage(DeviceProfile::by_name("hdd").unwrap());
    let measured = Sweep::default().run(&mut storage, None, |_| {}).unwrap();
    let page = profile_report(&measured, &measured.fit().unwrap(), "a <disk>").html();
    let expected = [
        "Throughput of reads",
        "Latency of writes",
        "Slopes of writes",
        "small up to 128KiB",
        "4MiB",
        "a &lt;disk&gt;",
    ];
    for text in expected {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<svg").count(), 6);
    assert!(!page.contains("not shown"));
}
