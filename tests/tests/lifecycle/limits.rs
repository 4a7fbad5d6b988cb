//! Limits that have no outcome of their own are really set: read back from the kernel.

use anyhow::Result;
use atoll_core::Limits;
use atoll_core::quantity::{IoBandwidth, IoOperations, MIB};
use atoll_engine::{SandboxSpec, Walls, Warmth};
use atoll_tests::{engine, home, python, stop};
use std::os::unix::fs::MetadataExt;

#[tokio::test(flavor = "multi_thread")]
async fn the_use_of_the_disk_is_limited_and_read_back() -> Result<()> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    let limits = Limits {
        io_bandwidth: IoBandwidth::known(64 * MIB),
        io_operations: IoOperations::known(700),
        ..Limits::SMALL
    };
    let mut one = engine
        .create(SandboxSpec {
            limits,
            ..SandboxSpec::default()
        })
        .await?;
    let execution = python(&mut one, "1").await?;
    let groups = &execution.receipt.layers["cgroups"];
    let on_disk = std::fs::metadata(home())?.dev() >= 256;
    if groups.is_null() {
        assert!(
            !execution.receipt.layers["weaker"].as_array().is_none_or(Vec::is_empty),
            "weaker, and says so"
        );
    } else if on_disk && groups["io_read_bytes"] != "not limited" {
        assert_eq!(
            (&groups["io_read_bytes"], &groups["io_write_bytes"]),
            (&"67108864".into(), &"67108864".into())
        );
        assert_eq!(
            (&groups["io_read_operations"], &groups["io_write_operations"]),
            (&"700".into(), &"700".into())
        );
    } else {
        assert!(
            groups["io"].as_str().is_some_and(|said| !said.is_empty()),
            "not limited, and says so: {groups}"
        );
    }
    one.end().await?;
    stop(engine).await
}
