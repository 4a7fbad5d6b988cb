//! The Python of the tier: modules of its library, clocks, and what the build leaves behind.

use crate::{engine, sandbox};
use anyhow::{Result, ensure};
use atoll_core::Outcome;
use atoll_tests::python;

async fn printed(code: &str) -> Result<String> {
    let engine = engine().await?;
    let mut one = sandbox(&engine).await?;
    let ran = python(&mut one, code).await?;
    engine.stop().await;
    ensure!(ran.outcome == Outcome::Ok, "{ran:?}");
    Ok(ran.stdout)
}

/// These are not imported when the component is built.
#[tokio::test(flavor = "multi_thread")]
async fn other_modules_of_the_library_are_imported_on_request() -> Result<()> {
    let code = "import sys, tomllib, email.message, sqlite3, unittest, zoneinfo\n\
                message = email.message.EmailMessage()\nmessage['To'] = 'a@b.c'\n\
                row = sqlite3.connect('/tmp/one.db').execute('select 6 * 7').fetchone()\n\
                print(tomllib.loads('x = 1'), message['To'], row[0], zoneinfo.ZoneInfo.__name__)\n\
                print(sys.version_info[:2], sys.gettrace(), sys.getprofile())";
    ensure!(printed(code).await? == "{'x': 1} a@b.c 42 ZoneInfo\n(3, 14) None None\n");
    Ok(())
}

/// None is set at the start; debuggers and coverage tools set one.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_function_is_called_and_stays_set_in_the_next_cell() -> Result<()> {
    let engine = engine().await?;
    let mut one = sandbox(&engine).await?;
    let traced = "events.clear()\ntraced()\nprint(events)";
    // The cells themselves are traced, too: a list of all events would grow while it is read.
    let sets = format!(
        "import sys\nevents = []\ndef traced():\n    return 1\ndef trace(frame, event, arg):\n    \
         if frame.f_code.co_name == 'traced': events.append(event)\n    return trace\n\
         sys.settrace(trace)\n{traced}"
    );
    for cell in [&sets, traced] {
        let ran = python(&mut one, cell).await?;
        ensure!(
            (ran.outcome, ran.stdout.as_str()) == (Outcome::Ok, "['call', 'line', 'return']\n"),
            "{cell}: {ran:?}"
        );
    }
    engine.stop().await;
    Ok(())
}

/// The component carries a time zone database; nothing of the host's is visible.
#[tokio::test(flavor = "multi_thread")]
async fn time_zones_are_found() -> Result<()> {
    let code = "import zoneinfo\nfrom datetime import datetime, timezone\n\
                summer = datetime(2024, 7, 1, tzinfo=timezone.utc)\n\
                print([summer.astimezone(zoneinfo.ZoneInfo(name)).strftime('%H:%M %Z')\n       \
                for name in ('Europe/Berlin', 'Asia/Kolkata', 'America/New_York', 'UTC')],\n      \
                len(zoneinfo.available_timezones()) > 400)";
    ensure!(printed(code).await? == "['02:00 CEST', '05:30 IST', '20:00 EDT', '00:00 UTC'] True\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn network_access_is_refused_with_a_message() -> Result<()> {
    let code = "import _socket, socket, urllib.request\n\
                for attempt in (socket.socket, lambda: socket.create_connection(('localhost', 80)), _socket.socket,\n        \
                lambda: urllib.request.urlopen('http://localhost')):\n    try:\n        attempt()\n    \
                except OSError as error:\n        \
                print('no network in this sandbox' in str(error) and '[Errno' not in str(error))";
    ensure!(printed(code).await? == "True\nTrue\nFalse\nTrue\n");
    Ok(())
}

/// The C library counts process time from the build of the component.
#[tokio::test(flavor = "multi_thread")]
async fn process_time_starts_near_zero_and_advances() -> Result<()> {
    let code = "import time\nfirst, first_ns = time.process_time(), time.process_time_ns()\nsum(range(10**5))\n\
                print(0 <= first < 60, 0 <= first_ns < 60 * 10**9, time.process_time() > first, time.process_time_ns() > first_ns)";
    ensure!(printed(code).await? == "True True True True\n");
    Ok(())
}

/// The host takes at most 64 KiB per write.
#[tokio::test(flavor = "multi_thread")]
async fn large_writes_are_whole() -> Result<()> {
    let code = "import io, os, pathlib, shutil\ndata = bytes(range(256)) * 4096\n\
                open('/tmp/a', 'wb').write(data)\npathlib.Path('/tmp/b').write_bytes(data)\n\
                shutil.copyfile('/tmp/a', '/tmp/c')\nopen('/tmp/d', 'w').write('x' * 2**20)\n\
                print([pathlib.Path('/tmp', name).read_bytes() == data for name in 'abc'], os.path.getsize('/tmp/d'))";
    ensure!(printed(code).await? == "[True, True, True] 1048576\n");
    let text = printed("print('x' * 300_000, end='')").await?;
    ensure!(text.len() == 300_000, "{}", text.len());
    Ok(())
}
