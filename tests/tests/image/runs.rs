//! What runs in a template of an image sees the image, and nothing of the host.

use crate::{World, from, shell};
use anyhow::{Context, Result};
use atoll_core::{Language, Outcome, Tier};
use atoll_engine::template::TemplateStore;
use atoll_engine::{Engine, EngineConfig, SandboxSpec, TierSettings, Walls, Warmth};
use atoll_tests::image::{Image, Layer, archived, open_to_all};
use atoll_tests::user::User;
use atoll_tests::{NO_AUDIT, binary, execute, run};
use std::path::Path;
use std::sync::Arc;

/// A file that this machine has and the image has not.
const OF_THE_HOST: &str = "/usr/bin/env";

fn with_python() -> Result<Image> {
    let mut layer = Layer::default();
    layer.base()?;
    layer.python()?;
    layer.file("only-here.txt", b"of the image\n", 0o600)?;
    layer.file("app/main.py", b"of the image", 0o644)?;
    layer.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\n", 0o644)?;
    let site = std::fs::canonicalize("/usr/bin/python3")?;
    let site = site.file_name().context("a name")?.to_string_lossy().into_owned();
    let package = |name: &str| format!("usr/local/lib/{site}/dist-packages/{name}/__init__.py");
    layer.file(&package("pandas"), b"where = __file__\n", 0o644)?;
    // A thread that stays cannot be forked; a package that starts one must not be preloaded.
    let threads = b"import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n";
    layer.file(&package("numpy"), threads, 0o644)?;
    layer.file(&package("matplotlib"), b"raise RuntimeError('broken')\n", 0o644)?;
    layer.file(&package("matplotlib/pyplot"), b"", 0o644)?;
    let mut image = Image::new(vec![layer.bytes()?]);
    image.env.push("GREETING=hello from the image".to_owned());
    Ok(image)
}

#[tokio::test]
async fn python_and_bash_run_in_the_root_of_an_image() -> Result<()> {
    let world = World::new()?;
    let image = with_python()?;
    image.saved(&world.path("saved.tar"))?;
    image.layout(&world.path("layout"))?;
    world.build("saved", &from("docker-archive", &world.path("saved.tar")))?;
    world.build("layout", &from("oci", &world.path("layout")))?;
    let code = format!(
        "import os, sys\nprint(open('/only-here.txt').read().strip(), os.path.exists('{OF_THE_HOST}'), os.environ['GREETING'])\n\
         print(open('/etc/passwd').read().count('user:x:1000'), os.getuid(), sys.prefix)\nimport pandas\nprint(pandas.where.split('/')[2])"
    );
    assert!(
        Path::new(OF_THE_HOST).exists(),
        "the control of the file that is not there"
    );
    for name in ["saved", "layout"] {
        let ran = world.atoll(&["run", "--template", name, "-c", &code])?;
        let expected = "of the image False hello from the image\n1 1000 /opt/atoll/venv\nlocal\n";
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), expected, ""),
            "{name}"
        );
        let bash = format!("cat /only-here.txt; ls {OF_THE_HOST}; id -un");
        let ran = world.atoll(&["run", "--template", name, "--lang", "bash", "-c", &bash])?;
        assert_eq!(ran.stdout, "of the image\nuser\n", "{name} {ran:?}");
        let ran = world.atoll(&["run", "--template", name, "--lang", "js", "-c", "1"])?;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("no `node` on its PATH"), "{ran:?}");
    }
    let control = run(&["run", "--template", "python-min", "-c", &code])?;
    assert_eq!(
        control.code,
        Some(1),
        "the same code in a template of the host finds no such file: {control:?}"
    );
    warm(&world).await
}

/// The same image behind each wall that runs images: its files, its packages and its environment, and nothing of the host.
#[test]
fn an_image_is_the_same_behind_every_wall() -> Result<()> {
    let world = World::new()?;
    with_python()?.saved(&world.path("saved.tar"))?;
    world.build("saved", &from("docker-archive", &world.path("saved.tar")))?;
    let code = format!(
        "import os, pandas\nprint(open('/only-here.txt').read().strip(), os.path.exists('{OF_THE_HOST}'), os.environ['GREETING'], os.getuid())\n\
         open('/data/output/made.txt', 'w').write(pandas.where)\ntry: open('/usr/new', 'w')\nexcept OSError as e: print('kept')\n\
         try: open('/app/main.py', 'a')\nexcept OSError as e: print(open('/app/main.py').read())\n\
         for free in ['/code', '/workspace', '/var/tmp']: open(free + '/x', 'w').write('x')"
    );
    for tier in ["jail", "container", "gvisor", "microvm"] {
        let out = world.path(tier);
        let out = out.to_str().context("a path")?;
        let ran = world.atoll(&["run", "--tier", tier, "--template", "saved", "--out", out, "-c", &code])?;
        let expected = "of the image False hello from the image 1000\nkept\nof the image\n";
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{tier} {ran:?}");
        assert!(
            std::fs::read_to_string(world.path(tier).join("made.txt"))?.contains("dist-packages/pandas"),
            "{tier}"
        );
        let bash = format!("cat /only-here.txt; ls /only-here.txt; [ -e {OF_THE_HOST} ] || echo away; echo $GREETING");
        let ran = world.atoll(&[
            "run",
            "--tier",
            tier,
            "--template",
            "saved",
            "--lang",
            "bash",
            "-c",
            &bash,
        ])?;
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "of the image\n/only-here.txt\naway\nhello from the image\n"),
            "{tier} {ran:?}"
        );
    }
    Ok(())
}

/// What an image has is preloaded if it can be; what cannot, stays out, and everything works.
async fn warm(world: &World) -> Result<()> {
    let store = TemplateStore::new(world.home());
    let template = store.ensure("saved", &Quiet)?;
    assert_eq!(
        template.preload_if_it_works.len(),
        4,
        "{:?}",
        template.preload_if_it_works
    );
    let config = EngineConfig {
        tier: Tier::Jail,
        settings: TierSettings::default(),
        home: world.home(),
        program: binary(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    let engine = Arc::new(Engine::start(config, template).await?);
    engine.ready().await?;
    let mut sandbox = engine.create(SandboxSpec::default()).await?;
    let code = "import sys\n[name in sys.modules for name in ('pandas', 'numpy', 'matplotlib', 'IPython')]";
    let ran = execute(&mut sandbox, Language::Python, code).await?;
    assert_eq!(ran.outcome, Outcome::Ok, "{ran:?}");
    let shown = ran.results[0].data.get("text/plain").map(atoll_tests::value);
    assert_eq!(shown, Some("[True, False, False, True]".into()));
    drop(sandbox);
    atoll_tests::stop(engine).await
}

struct Quiet;

impl atoll_engine::template::Progress for Quiet {
    fn step(&self, _text: &str, _done: u64, _total: u64) {}
}

#[test]
fn an_image_without_python_runs_bash_and_says_what_it_lacks() -> Result<()> {
    let world = World::new()?;
    shell()?.layout(&world.path("layout"))?;
    archived(&world.path("layout"), &world.path("layout.tar"))?;
    let built = world.build("shell", &from("oci", &world.path("layout.tar")))?;
    assert!(
        built
            .stderr
            .contains("does not support `python`: the image has no `python3` on its PATH"),
        "{built:?}"
    );
    let ran = world.atoll(&[
        "run",
        "--template",
        "shell",
        "--lang",
        "bash",
        "-c",
        "cat /only-here.txt",
    ])?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "of the image\n"), "{ran:?}");
    let ran = world.atoll(&["run", "--template", "shell", "-c", "1"])?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("does not support `python`"), "{ran:?}");
    Ok(())
}

#[test]
fn an_image_cannot_be_changed_from_inside_and_hides_where_it_lies() -> Result<()> {
    let world = World::new()?;
    shell()?.layout(&world.path("layout"))?;
    world.build("shell", &from("oci", &world.path("layout")))?;
    let bash = "echo x > /only-here.txt; echo x > /usr/new; echo x > /new; echo x > /home/user/mine && cat /home/user/mine; \
                while read -r line; do [[ $line == */templates/* ]] && echo \"$line\"; done < /proc/self/mountinfo; \
                cat /run/landlock/canary; :";
    let ran = world.atoll(&["run", "--template", "shell", "--lang", "bash", "-c", bash])?;
    assert_eq!(
        ran.stdout, "x\n",
        "only the home is writable, and no path of the host shows: {ran:?}"
    );
    assert_eq!(
        ran.stderr.matches("Read-only file system").count() + ran.stderr.matches("Permission denied").count(),
        4,
        "{ran:?}"
    );
    Ok(())
}

#[test]
fn an_ordinary_user_builds_and_runs_one() -> Result<()> {
    let world = World::new()?;
    shell()?.layout(&world.path("layout"))?;
    for path in [world.path(""), world.path("layout")] {
        open_to_all(&path)?;
    }
    let user = User::new(12_349)?;
    let built = user.run(&[
        "template",
        "build",
        "--name",
        "shell",
        "--from",
        &from("oci", &world.path("layout")),
    ])?;
    assert_eq!(built.code, Some(0), "{built:?}");
    let ran = user.run(&[
        "run",
        "--template",
        "shell",
        "--lang",
        "bash",
        "-c",
        "cat /only-here.txt; id -u",
    ])?;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "of the image\n1000\n"),
        "{ran:?}"
    );
    Ok(())
}
