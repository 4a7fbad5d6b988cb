//! A Python context that is a program: started cold by the agent, then warmed as the template says.

use crate::backend::context::Interpreter;
use crate::backend::start::Inspected;
use crate::backend::{BareSandbox, TierError};
use crate::template::Template;
use std::collections::BTreeMap;

/// The last of warming: what is there is never looked through again, so memory that copies share stays shared.
const SETTLED: &str = "import gc\ngc.collect()\ngc.freeze()";

/// How a template's Python is started where nothing can be forked into a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct PythonStart {
    argv: Vec<String>,
    /// Run one after the other, in namespaces that are thrown away.
    warming: Vec<String>,
}

impl PythonStart {
    pub(crate) fn of(template: &Template, warm: bool) -> Self {
        let argv = [template.interpreter.as_str(), "-I", "-X", "utf8", "-m", "atoll_kernel"];
        let imports = template
            .preload
            .iter()
            .map(|module| format!("import {module}\n"))
            .collect();
        let warming = [imports].into_iter().chain(template.warmup.clone());
        let warming = warming.chain([SETTLED.to_owned()]);
        Self {
            argv: argv.map(str::to_owned).to_vec(),
            warming: warming.filter(|_| warm).collect(),
        }
    }

    /// Of all that a ready context comes from.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{:?} {:?}", self.argv, self.warming)
    }

    pub(crate) async fn start(&self, sandbox: &BareSandbox) -> Result<Inspected, TierError> {
        let env = BTreeMap::new();
        let program = sandbox.start_program(Interpreter::Python, self.argv.clone(), &env, "");
        let (mut context, layers) = program.await?;
        for code in &self.warming {
            context.warm(code).await?;
        }
        Ok((context, layers))
    }
}
