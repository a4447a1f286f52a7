//! Workload generators and the demo.
