//! The file a trace is written to: for its owner only, and of bounded size.
//!
//! At its bound it is renamed to `FILE.1`, in place of the one before, and begins anew; one that somebody took away begins anew
//! too. What cannot be written is lost and said to be; the file stays one that can be read. What is there and is no trace is
//! another program's, and left alone.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::chain::Written;
use super::line::{Line, Part, Request, Size, VERSION};

/// Read and written by its owner alone.
const MODE: u32 = 0o600;

/// What a trace begins with.
const HEAD: &[u8] = br#"{"trace":"#;

/// A trace being written.
pub(super) struct TraceFile {
    path: PathBuf,
    limit: u64,
    file: File,
    /// Bytes in it.
    size: u64,
    /// Lines that are not in it yet, and how many of them are of requests.
    batch: Vec<u8>,
    requests: u64,
    /// Whether it may end within a line.
    is_torn: bool,
    /// When its times are 0.
    began: Instant,
    start: String,
    written: Written,
    sizes: HashMap<(Arc<str>, Arc<str>), u64>,
}

impl TraceFile {
    /// Opens a file, made if it is not there, and begins a part in it.
    pub(super) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = open(path)?;
        let size = file.metadata()?.len();
        let mut this = Self {
            path: path.to_owned(),
            limit,
            file,
            size,
            batch: Vec::new(),
            requests: 0,
            // Whoever wrote it last may have been stopped in the middle.
            is_torn: size > 0,
            began: Instant::now(),
            start: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            written: Written::default(),
            sizes: HashMap::new(),
        };
        this.begin_part();
        this.write_out()?;
        Ok(this)
    }

    /// When its times are 0.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Adds the size of an endpoint's cache, unless the file has it.
    pub(super) fn size_of(&mut self, size: &Size) {
        let key = (Arc::clone(&size.pool), Arc::clone(&size.endpoint));
        if self.sizes.insert(key, size.kv_tokens) != Some(size.kv_tokens) {
            self.line(&Line::Endpoint(size.clone()));
        }
    }

    /// Adds a request, whose prompt has these hashes.
    pub(super) fn request(&mut self, mut request: Request, chain: &[u64]) {
        let (after, new) = self.written.split(chain);
        (request.after, request.blocks) = (after, new.to_vec());
        self.line(&Line::Request(Box::new(request)));
        self.requests += 1;
    }

    /// Whether it is at its bound.
    pub(super) fn is_full(&self) -> bool {
        self.size + self.batch.len() as u64 >= self.limit
    }

    /// Sets its bound.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Makes way for another file.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        let old = PathBuf::from(old);
        if old.exists() {
            check(&old, &mut File::open(&old)?)?;
        }
        std::fs::rename(&self.path, old)?;
        self.begin_anew()
    }

    /// Whether its path leads to it no more.
    pub(super) fn is_gone(&self) -> bool {
        let this = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let here = std::fs::metadata(&self.path).map(this);
        here.ok() != self.file.metadata().map(this).ok()
    }

    /// Opens what its path leads to now.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.size = self.file.metadata()?.len();
        self.is_torn = self.size > 0;
        self.begin_part();
        self.write_out().map(drop)
    }

    /// Writes what was added; returns how many requests those were. On an error they are lost.
    pub(super) fn write_out(&mut self) -> io::Result<u64> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        let result = self.file.write_all(&self.batch);
        self.is_torn = result.is_err();
        if result.is_ok() {
            self.size += self.batch.len() as u64;
        } else {
            self.size = self.file.metadata().map_or(self.size, |metadata| metadata.len());
            // Some of the batch may be there or not: nothing after it may rest on it.
            self.written.forget();
            self.sizes.clear();
        }
        self.batch.clear();
        let requests = std::mem::take(&mut self.requests);
        result.map(|()| requests)
    }

    /// Requests added and not written yet.
    pub(super) fn pending(&self) -> u64 {
        self.requests
    }

    fn begin_part(&mut self) {
        self.written.forget();
        self.sizes.clear();
        let part = Part { version: VERSION, start: self.start.clone(), spillway: env!("CARGO_PKG_VERSION").to_owned() };
        self.line(&Line::Trace(part));
    }

    fn line(&mut self, line: &Line) {
        if std::mem::take(&mut self.is_torn) {
            self.batch.push(b'\n');
        }
        serde_json::to_writer(&mut self.batch, line).expect("keys are strings, and memory takes every byte");
        self.batch.push(b'\n');
    }
}

fn open(path: &Path) -> io::Result<File> {
    // To open a pipe that nobody reads would wait for a reader.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(MODE).open(path)?;
    check(path, &mut file)?;
    // It may have been there with another mode.
    file.set_permissions(Permissions::from_mode(MODE))?;
    Ok(file)
}

/// Whether a file is a trace, or empty: a path that was mistyped must not cost another program its file.
fn check(path: &Path, file: &mut File) -> io::Result<()> {
    let mut head = Vec::new();
    if file.metadata()?.is_file() {
        file.take(HEAD.len() as u64).read_to_end(&mut head)?;
        if HEAD.starts_with(&head) {
            return Ok(());
        }
    }
    Err(io::Error::other(format!("{} is there, and is not a trace", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    fn request(at: u64) -> Request {
        Request { at, pool: "p".into(), model: "m".into(), ..Request::default() }
    }

    fn read(path: &Path) -> Trace {
        Trace::read(&*std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_its_owners_alone_and_takes_up_where_another_was_cut_short() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut first = TraceFile::open(&path, 1 << 20).unwrap();
        first.request(request(1), &[1, 2]);
        assert_eq!(first.write_out().unwrap(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut second = TraceFile::open(&path, 1 << 20).unwrap();
        second.request(request(2), &[1, 2, 3]);
        second.write_out().unwrap();
        let trace = read(&path);
        assert_eq!(trace.bad.count, 1, "the line that was cut");
        assert_eq!(trace.requests.len(), 1);
        assert_eq!(trace.chains.hashes(trace.requests[0].tip), [1, 2, 3], "a part rests on none before it");
    }

    #[test]
    fn at_its_bound_it_makes_way_and_each_file_reads_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut file = TraceFile::open(&path, 1_000).unwrap();
        for at in 0..40 {
            if file.is_full() {
                file.write_out().unwrap();
                file.rotate().unwrap();
            }
            file.size_of(&Size { pool: "p".into(), endpoint: "e".into(), kv_tokens: 5 });
            file.request(request(at), &[1, 2, 3]);
        }
        file.write_out().unwrap();
        let mut next = 40;
        for name in ["trace", "trace.1"] {
            let path = directory.path().join(name);
            let trace = read(&path);
            assert!(std::fs::metadata(&path).unwrap().len() < 1_300, "{name} is far over its bound");
            assert_eq!((trace.bad.count, trace.sizes.len()), (0, 1));
            for request in trace.requests.iter().rev() {
                next -= 1;
                assert_eq!(request.request.at, next);
                assert_eq!(trace.chains.hashes(request.tip), [1, 2, 3]);
            }
        }
    }

    #[test]
    fn one_that_was_taken_away_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut file = TraceFile::open(&path, 1 << 20).unwrap();
        assert!(!file.is_gone());
        std::fs::remove_file(&path).unwrap();
        assert!(file.is_gone());
        file.begin_anew().unwrap();
        file.request(request(1), &[1]);
        file.write_out().unwrap();
        assert_eq!((file.is_gone(), read(&path).requests.len()), (false, 1));
    }

    #[test]
    fn it_makes_way_over_no_other_programs_file() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("trace"), directory.path().join("trace.1"));
        let mut file = TraceFile::open(&path, 1 << 20).unwrap();
        std::fs::write(&old, "precious").unwrap();
        assert!(file.rotate().unwrap_err().to_string().ends_with("trace.1 is there, and is not a trace"));
        std::fs::remove_file(&old).unwrap();
        std::fs::create_dir(&old).unwrap();
        assert!(file.rotate().is_err());
        std::fs::remove_dir(&old).unwrap();
        file.rotate().unwrap();
        assert!(read(&path).requests.is_empty() && read(&old).requests.is_empty());
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        assert!(TraceFile::open(Path::new("/dev/null"), 1 << 20).is_err());
        assert!(TraceFile::open(Path::new("/nowhere/trace"), 1 << 20).is_err());
    }

    #[test]
    fn what_is_there_and_is_no_trace_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other");
        for text in ["pools: {}\n", "{\"request\":{}}\n", "{\"tr\n"] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            let error = TraceFile::open(&path, 1 << 20).err().expect("it is refused").to_string();
            assert!(error.ends_with("other is there, and is not a trace"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        }
        std::fs::write(&path, "{\"tra").unwrap();
        assert!(TraceFile::open(&path, 1 << 20).is_ok(), "one that was cut short at its first write is taken up");
    }
}
