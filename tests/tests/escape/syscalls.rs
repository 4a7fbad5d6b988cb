//! Discovery.
#[tokio::test]
async fn discover() {
    use atoll_engine::Wall;
    let code = std::fs::read_to_string("/tmp/disc.py").unwrap();
    for (n, walls) in [(0, &[][..]), (1, &[Wall::Seccomp][..]), (2, &[Wall::Seccomp, Wall::Capabilities][..])] {
        let engine = crate::lab::engine_without(walls).await.unwrap();
        let mut sandbox = atoll_tests::sandbox(&engine).await.unwrap();
        let e = atoll_tests::python(&mut sandbox, &code).await.unwrap();
        sandbox.end().await.unwrap();
        std::fs::write(format!("/tmp/disc{n}.out"), format!("{}\n{:?} {}", e.stdout, e.error, e.stderr)).unwrap();
        atoll_tests::stop(engine).await.unwrap();
    }
}
