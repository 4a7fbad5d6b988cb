//! `atoll approvals fetch`: the files of an approved dry run, saved like those of any run.

use super::{Place, known};
use crate::commands::sandbox::read;
use crate::output::Failure;
use atoll_engine::{OutDir, Target, safe_path};
use atoll_server::api::native::ApprovalView;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use reqwest::header::ACCEPT;
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
        let request = self.server.request(Method::GET, path);
        let request = request.header(ACCEPT, "application/octet-stream");
        let mut answer = self.server.send(request).await?;
        while let Some(piece) = answer.chunk().await.map_err(|error| Failure::ours(&error))? {
            target.write(&piece).map_err(|error| Failure::ours(&error))?;
        }
        Ok(())
    }
}
