//! Decides when the content of the file has changed. The reading is the caller's: `std::fs::read(path)` every [`POLL`].
//!
//! Content, not events: a read follows symlinks anew each time, so a write in place, a rename over the file, the swap of
//! a Kubernetes ConfigMap's `..data` link and a network file system without notifications all look the same. A change
//! counts once two successive reads agree, so that a half-written file is not taken for one. Who writes slower than that
//! should write aside and rename.

use std::io;
use std::time::Duration;

/// Time between two reads. Two of them pass before a change counts: half a second, far below what a ConfigMap takes to
/// arrive, at a cost that cannot be measured.
pub const POLL: Duration = Duration::from_millis(250);

/// What the last reads said.
#[derive(Debug)]
pub struct Watcher {
    /// The content last reported or accepted.
    current: Vec<u8>,
    /// The read before, if it differed from `current`.
    before: Option<Read>,
    /// Whether an outage was reported and has not ended.
    is_lost: bool,
}

/// A read that is not the current content.
#[derive(Debug, PartialEq)]
enum Read {
    Content(Vec<u8>),
    Failed,
}

/// Something to act on.
#[derive(Debug)]
pub enum Change {
    /// The file has other content. It may or may not be a good configuration; it is reported once either way.
    Content(Vec<u8>),
    /// The file cannot be read, twice in a row. Reported once until it can be again.
    Unreadable(io::Error),
}

impl Watcher {
    /// Starts from the bytes that the running configuration was loaded from.
    pub fn new(loaded: &[u8]) -> Self {
        Self { current: loaded.to_vec(), before: None, is_lost: false }
    }

    /// Takes note of one read. Returns what changed, at most once per change.
    pub fn poll(&mut self, contents: io::Result<Vec<u8>>) -> Option<Change> {
        match contents {
            Ok(content) if content == self.current => {
                self.before = None;
                self.is_lost = false;
                None
            }
            Ok(content) => {
                self.is_lost = false;
                let content = Read::Content(content);
                let agrees = self.before.as_ref() == Some(&content);
                let Read::Content(bytes) = content else { return None };
                if agrees {
                    self.accept(&bytes);
                    return Some(Change::Content(bytes));
                }
                self.before = Some(Read::Content(bytes));
                None
            }
            Err(error) => {
                let again = self.before == Some(Read::Failed);
                self.before = Some(Read::Failed);
                if again && !self.is_lost {
                    self.is_lost = true;
                    return Some(Change::Unreadable(error));
                }
                None
            }
        }
    }

    /// Takes note of a load that came another way, by signal or request, so that it is not reported again.
    pub fn accept(&mut self, loaded: &[u8]) {
        self.current = loaded.to_vec();
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds reads in order and returns what was reported, `!` standing for a failed read and an outage.
    fn reports(reads: &[&str]) -> Vec<String> {
        let mut watcher = Watcher::new(b"a");
        let read = |text: &str| match text {
            "!" => Err(io::Error::from(io::ErrorKind::NotFound)),
            text => Ok(text.as_bytes().to_vec()),
        };
        let changes = reads.iter().filter_map(|text| watcher.poll(read(text)));
        changes
            .map(|change| match change {
                Change::Content(bytes) => String::from_utf8(bytes).unwrap(),
                Change::Unreadable(_) => "!".to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_change_counts_once_two_reads_agree() {
        assert_eq!(reports(&["a", "b"]), [""; 0], "one read may be half a file");
        assert_eq!(reports(&["a", "b", "b", "b"]), ["b"]);
        assert_eq!(reports(&["a", "b", "bc", "bcd", "bcd"]), ["bcd"], "a file still being written is left alone");
    }

    #[test]
    fn a_change_that_is_taken_back_is_none() {
        assert_eq!(reports(&["b", "a", "b", "a", "a"]), [""; 0]);
        assert_eq!(reports(&["b", "b", "a", "a"]), ["b", "a"], "going back after it counted is a change again");
    }

    #[test]
    fn an_outage_is_reported_once_and_a_blink_never() {
        assert_eq!(reports(&["!", "a", "!", "a"]), [""; 0], "a file is missing for a moment while it is replaced");
        assert_eq!(reports(&["!", "!", "!", "!"]), ["!"]);
        assert_eq!(reports(&["!", "!", "a", "!", "!"]), ["!", "!"], "a second outage is news again");
        assert_eq!(reports(&["!", "!", "b", "b"]), ["!", "b"]);
        assert_eq!(reports(&["b", "!", "b", "b"]), ["b"], "a failed read between two equal ones breaks the row");
    }

    #[test]
    fn what_was_loaded_by_request_is_not_reported_again() {
        let mut watcher = Watcher::new(b"a");
        assert!(watcher.poll(Ok(b"b".to_vec())).is_none());
        watcher.accept(b"b");
        assert!(watcher.poll(Ok(b"b".to_vec())).is_none(), "it is the running configuration already");
    }

    /// A read of the path, twice: a change that is there is one that both see.
    #[cfg(unix)]
    fn look(watcher: &mut Watcher, path: &std::path::Path) -> Option<Change> {
        let first = watcher.poll(std::fs::read(path));
        assert!(first.is_none(), "the first read after a change must not count: {first:?}");
        watcher.poll(std::fs::read(path))
    }

    #[cfg(unix)]
    #[test]
    fn the_symlink_swap_of_a_config_map_is_seen() {
        use std::fs;
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // As the kubelet does: the file is a link through `..data`, which is a link to a folder of its own per version.
        for (version, text) in [("..v1", "one"), ("..v2", "two")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("spillway.yaml"), text).unwrap();
        }
        symlink("..v1", at("..data")).unwrap();
        symlink("..data/spillway.yaml", at("spillway.yaml")).unwrap();
        let path = at("spillway.yaml");
        let mut watcher = Watcher::new(b"one");
        assert!(look(&mut watcher, &path).is_none(), "nothing has changed yet");

        symlink("..v2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        fs::remove_dir_all(at("..v1")).unwrap();
        match look(&mut watcher, &path) {
            Some(Change::Content(bytes)) => assert_eq!(bytes, b"two"),
            other => panic!("the swap was not seen: {other:?}"),
        }
        assert!(look(&mut watcher, &path).is_none(), "a change is reported once");
    }

    #[cfg(unix)]
    #[test]
    fn a_rename_over_the_file_and_a_write_in_place_are_seen() {
        use std::fs;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spillway.yaml");
        fs::write(&path, "one").unwrap();
        let mut watcher = Watcher::new(b"one");
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert!(matches!(look(&mut watcher, &path), Some(Change::Content(bytes)) if bytes == b"two"));
        fs::write(&path, "three").unwrap();
        assert!(matches!(look(&mut watcher, &path), Some(Change::Content(bytes)) if bytes == b"three"));
    }
}
