//! Saved plotly figures in a real browser: they are drawn, as far as that needs neither generated code nor the network, and
//! reach nothing. The same page without its policy is the control: it does.

use anyhow::{Context, Result, ensure};
use atoll_tests::{atoll, run_command};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a page would like to reach.
struct Site {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Site {
    fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                BufReader::new(&connection).read_line(&mut String::new()).ok();
                let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                (&connection).write_all(answer).ok();
            }
        });
        Ok(Self { address, connections })
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

#[test]
fn a_saved_figure_is_drawn_offline_and_reaches_nothing() -> Result<()> {
    let (site, dir) = (Site::open()?, tempfile::tempdir()?);
    let code = format!(
        "import plotly.graph_objects as go\nfig = go.Figure(go.Bar(x=['a'], y=[1]))\n\
         fig.update_layout(title='</script><script>document.title = 1</script>')\n\
         fig.add_layout_image(source='http://{}/x.png', x=0, y=1, sizex=1, sizey=1)\nfig.show()",
        site.address
    );
    let ran = run_command(
        atoll()
            .args(["run", "--raw-results", "-c", code.as_str()])
            .current_dir(dir.path()),
    )?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let page = dir.path().join("atoll-out/chart-1.html");
    let drawn = shown(&page)?;
    assert!(
        drawn.contains("<svg class=\"main-svg\""),
        "no chart in {} bytes",
        drawn.len()
    );
    assert!(drawn.contains("<title>Chart</title>"), "the title's script ran");
    assert_eq!(site.connections(), 0);

    let control = dir.path().join("control.html");
    fs::write(
        &control,
        fs::read_to_string(&page)?.replace("Content-Security-Policy", "no-policy"),
    )?;
    shown(&control)?;
    assert!(
        site.connections() > 0,
        "the page tries nothing, so the test shows nothing"
    );
    Ok(())
}

const FIGURES: &str = r#"
import plotly.graph_objects as go
points = go.Scattergl(x=[1, 2, 3], y=[1, 2, 3], mode="markers")
countries = go.Choropleth(locations=["France"], locationmode="country names", z=[1])
matrix = go.Splom(dimensions=[{"label": "a", "values": [1, 2]}, {"label": "b", "values": [2, 1]}])
bars = go.Bar(x=["a", "b"], y=[1, 2])
frames = [go.Frame(name="next", data=[go.Scattergl(x=[7], y=[7])])]
for traces, frames in [(points, None), (countries, None), ([countries, bars, matrix], None), (go.Scatter(x=[1], y=[1]), frames)]:
    go.Figure(traces, frames=frames).show()
"#;

const NEEDS: &str = "plotly needs generated code or map data from the network for it, and the page allows neither.";

/// Plays the frame of the page beside it.
const PLAYER: &str = r#"<iframe src="chart-4.html"></iframe><script>
document.querySelector("iframe").onload = async ({ target: { contentWindow: { Plotly, chart } } }) => {
  const start = chart.data[0].x[0];
  await Plotly.animate(chart, ["next"], { frame: { duration: 0 }, transition: { duration: 0 } });
  document.body.textContent = `from ${start} to ${chart.data[0].x[0]} as ${chart.data[0].type}`;
};
</script>"#;

/// Generated code and map data from the network are what the policy of the page takes from plotly.
#[test]
fn a_saved_figure_is_drawn_without_generated_code_or_names_what_is_missing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ran = run_command(atoll().args(["run", "-c", FIGURES]).current_dir(dir.path()))?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let out = dir.path().join("atoll-out");
    for (page, count, missing) in [
        ("chart-1.html", 3, None),
        ("chart-2.html", 0, Some("choropleth")),
        ("chart-3.html", 2, Some("choropleth, splom")),
        ("chart-4.html", 1, None),
    ] {
        let drawn = shown(&out.join(page))?;
        assert_eq!(drawn.matches("class=\"point\"").count(), count, "{page}");
        let note = missing.map(|kinds| format!(">This page cannot draw {kinds}: {NEEDS}</p>"));
        assert!(note.is_none_or(|note| drawn.contains(&note)), "{page}");
        assert_eq!(drawn.contains("</p>"), missing.is_some(), "{page}");
    }
    fs::write(out.join("player.html"), PLAYER)?;
    let played = shown(&out.join("player.html"))?;
    assert!(played.contains("from 1 to 7 as scatter<"), "{played}");
    Ok(())
}

/// The elements of a page after its scripts have run. It may look into pages beside it.
fn shown(page: &Path) -> Result<String> {
    let profile = tempfile::tempdir()?;
    let done = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--allow-file-access-from-files",
            "--virtual-time-budget=10000",
            "--timeout=240000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .context("cannot start chromium")?;
    ensure!(done.status.success(), "chromium failed: {}", done.status);
    Ok(String::from_utf8(done.stdout)?)
}
