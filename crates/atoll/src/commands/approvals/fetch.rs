//! `atoll approvals fetch`: the files of an approved dry run, saved like those of any run.

use super::{Place, known};
use crate::client::refusal;
use crate::commands::sandbox::read;
use crate::output::Failure;
use atoll_engine::{OutDir, Target, safe_path};
use atoll_server::api::native::ApprovalView;
use http_body_util::{BodyExt, Empty};
use hyper::Method;
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::path::PathBuf;

impl Place<'_> {
    /// Where each file was saved. Names come from a sandbox: nothing is written outside of the directory.
    pub(super) async fn fetch(&self, id: &str, out: PathBuf) -> Result<Vec<String>, Failure> {
        let id = known(id)?;
        let view: ApprovalView = read(&self.server.ask(Method::GET, &format!("/v1/approvals/{id}")).await?)?;
        let dry_run = view.dry_run.ok_or_else(|| {
            Failure::usage("this approval is for code, not for dry-run files; there is nothing to fetch")
        })?;
        let mut out = OutDir::later(out);
        let mut saved = Vec::new();
        for change in dry_run.changes {
            let name = change.path.strip_prefix("/data/output/").unwrap_or(&change.path);
            let name = safe_path(name)
                .ok_or_else(|| Failure::ours_in_words("an output file has a name that is not a valid relative path"))?;
            let mut target = out.begin(&name).map_err(|error| Failure::ours(&error))?;
            let path = utf8_percent_encode(&change.path, NON_ALPHANUMERIC);
            self.take(&format!("/v1/approvals/{id}/files?path={path}"), &mut target)
                .await?;
            let place = out.finish(&target).map_err(|error| Failure::ours(&error))?;
            saved.push(place.to_string_lossy().into_owned());
        }
        Ok(saved)
    }

    async fn take(&self, path: &str, target: &mut Target) -> Result<(), Failure> {
        let nothing = Empty::<Bytes>::new();
        let kinds = ("application/json", "application/octet-stream");
        let answer = self.server.send(Method::GET, path, nothing, kinds).await?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::ours(&error))?;
            if let Ok(piece) = frame.into_data() {
                target.write(&piece).map_err(|error| Failure::ours(&error))?;
            }
        }
        Ok(())
    }
}
