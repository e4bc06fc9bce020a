//! Work beside the conversation: programs are compiled for their shapes, and optimised for what fuses, while the editor is
//! answered.

use crate::answers::lens;
use crossbeam_channel::{Receiver, Sender, unbounded};
use lsp_server::{ErrorCode, Message, RequestId, Response};
use lsp_types::{CodeLens, Uri};
use salient::{Diagnostic, Examined, Sources, examine};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of stack of a thread; only what is used is touched.
const STACK: usize = 1 << 30;

/// A program to be compiled.
pub(crate) struct Job {
    pub(crate) uri: Uri,
    pub(crate) sources: Arc<Sources>,
}

/// A program that has been compiled.
pub(crate) struct Done {
    pub(crate) uri: Uri,
    /// Which of the document's programs it was.
    pub(crate) sources: Arc<Sources>,
    pub(crate) examined: Examined,
}

/// A code lens to be resolved.
pub(crate) struct Wanted {
    pub(crate) id: RequestId,
    pub(crate) lens: CodeLens,
    pub(crate) sources: Arc<Sources>,
    pub(crate) model: String,
}

/// The threads at work. They end when this is dropped.
pub(crate) struct Workers {
    pub(crate) jobs: Sender<Job>,
    pub(crate) done: Receiver<Done>,
    pub(crate) lenses: Sender<Wanted>,
}

impl Workers {
    /// Starts them; what a lens says is sent to the editor directly.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(editor: Sender<Message>) -> std::io::Result<Workers> {
        let (jobs, new_jobs) = unbounded();
        let (finished, done) = unbounded();
        let (lenses, new_lenses) = unbounded();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        thread("compile").spawn(move || compile(&new_jobs, &finished))?;
        thread("optimise").spawn(move || resolve(&new_lenses, &editor))?;
        Ok(Workers { jobs, done, lenses })
    }
}

fn compile(jobs: &Receiver<Job>, done: &Sender<Done>) {
    while let Ok(first) = jobs.recv() {
        // Of each document only the newest text matters.
        let mut newest: BTreeMap<String, Job> = BTreeMap::new();
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            newest.insert(job.uri.0.clone(), job);
        }
        for Job { uri, sources } in newest.into_values() {
            let examined = catch_unwind(AssertUnwindSafe(|| examine(&sources))).unwrap_or_else(|_| fault());
            if done.send(Done { uri, sources, examined }).is_err() {
                return;
            }
        }
    }
}

/// What is told of a program that the compiler does not survive.
fn fault() -> Examined {
    let d = Diagnostic::placeless("internal error: the compiler did not survive this program")
        .help("`salient check` says more; please report it");
    Examined { diagnostics: vec![d], ..Examined::default() }
}

fn resolve(wanted: &Receiver<Wanted>, editor: &Sender<Message>) {
    let mut known = lens::Known::default();
    while let Ok(first) = wanted.recv() {
        // Of requests that wait, the last one about a model is of its newest text.
        let waiting: Vec<Wanted> = std::iter::once(first).chain(wanted.try_iter()).collect();
        for (n, want) in waiting.iter().enumerate() {
            let is_old = waiting[n + 1..]
                .iter()
                .any(|later| later.model == want.model && later.lens.data == want.lens.data);
            let answer = if is_old {
                let gone = "the text has changed".to_owned();
                Response::new_err(want.id.clone(), ErrorCode::ContentModified as i32, gone)
            } else {
                let title = catch_unwind(AssertUnwindSafe(|| known.title(&want.sources, &want.model)));
                let title = title.unwrap_or_else(|_| "internal error".to_owned());
                Response::new_ok(want.id.clone(), lens::with_title(want.lens.clone(), title))
            };
            if editor.send(answer.into()).is_err() {
                return;
            }
        }
    }
}
