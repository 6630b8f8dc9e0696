//! A disk in memory that fails, fills up and loses power where a test says, and only there.
//!
//! It is unkind in the ways real disks are. A power cut keeps what was synced; of the rest every
//! 512-byte sector is kept or lost by the seed, in any order, and so is every name that was not
//! synced. A failed sync loses its bytes for good, though reads still show them and a later sync
//! succeeds. It does not model bytes that rot: tests damage files with [`SimDisk::damage`].

use super::{Disk, DiskFile};
use outlast_core::random::SplitMix64;
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The unit in which a disk writes all or nothing.
pub const SECTOR_BYTES: usize = 512;

/// What goes wrong, and at which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power goes at this call; every later call fails.
    CutAt(u64),
    /// This call fails, a write after a part of it, and later calls work.
    FailAt(u64),
    /// This call finds the disk full, a write after a part of it, and later calls work.
    FullAt(u64),
}

/// A disk in memory; clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: SplitMix64,
    calls: u64,
    syncs: u64,
    fault: Option<Fault>,
    off: bool,
    capacity: Option<u64>,
    /// What programs see.
    names: BTreeMap<String, usize>,
    /// What survives for certain.
    durable_names: BTreeMap<String, usize>,
    /// By number, which is never used again, so that a name may come back to its old bytes.
    files: Vec<Content>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written and not synced; `false` when a failed sync has given them up.
    pending: BTreeMap<usize, bool>,
}

impl SimDisk {
    /// An empty disk. The seed decides what survives a power cut.
    pub fn new(seed: u64) -> Self {
        Self::from_state(State {
            random: SplitMix64::new(seed),
            calls: 0,
            syncs: 0,
            fault: None,
            off: false,
            capacity: None,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            files: Vec::new(),
        })
    }

    fn from_state(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Plans what goes wrong; calls count from when the disk was made.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Bytes that fit on the disk from now on; without a bound if absent.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.state().capacity = capacity;
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// The disk as a new start of the machine finds it after a power cut now. The seed decides over
    /// everything that was not synced.
    #[must_use]
    pub fn restart(&self, seed: u64) -> Self {
        let state = self.state();
        let mut random = SplitMix64::new(seed);
        let names = state.surviving_names(&mut random);
        let files: Vec<Content> = (state.files.iter())
            .map(|file| file.surviving(&mut random))
            .collect();
        Self::from_state(State {
            random,
            calls: 0,
            syncs: 0,
            fault: None,
            off: false,
            capacity: None,
            durable_names: names.clone(),
            names,
            files,
        })
    }

    /// The disk as a new process finds it when only the old process died: the kernel still has
    /// every byte, synced or not.
    #[must_use]
    pub fn survive_kill(&self) -> Self {
        let state = self.state();
        Self::from_state(State {
            random: state.random.clone(),
            calls: 0,
            syncs: 0,
            fault: None,
            off: false,
            capacity: None,
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            files: state.files.clone(),
        })
    }

    /// Turns every bit of the bytes in `range` of a file, on the medium itself.
    pub fn damage(&self, name: &str, range: std::ops::Range<usize>) {
        let mut state = self.state();
        let Some(number) = state.names.get(name).copied() else {
            return;
        };
        if let Some(file) = state.files.get_mut(number) {
            for bytes in [&mut file.seen, &mut file.durable] {
                let end = range.end.min(bytes.len());
                for byte in bytes.get_mut(range.start..end).into_iter().flatten() {
                    *byte = !*byte;
                }
            }
        }
    }
}

impl State {
    /// Counts a call and says whether it works.
    fn call(&mut self) -> Result<(), Refused> {
        let call = self.calls;
        self.calls += 1;
        if self.off {
            return Err(Refused::Off);
        }
        match self.fault {
            Some(Fault::CutAt(at)) if at == call => {
                self.off = true;
                Err(Refused::Cut)
            }
            Some(Fault::FailAt(at)) if at == call => Err(Refused::Failed),
            Some(Fault::FullAt(at)) if at == call => Err(Refused::Full),
            Some(Fault::CutAt(_) | Fault::FailAt(_) | Fault::FullAt(_)) | None => Ok(()),
        }
    }

    fn used(&self) -> u64 {
        (self.names.values())
            .filter_map(|number| self.files.get(*number))
            .map(|file| file.seen.len() as u64)
            .sum()
    }

    /// A name that was made or removed without a sync of the folder is there or not, by chance.
    fn surviving_names(&self, random: &mut SplitMix64) -> BTreeMap<String, usize> {
        let mut names = self.durable_names.clone();
        for (name, number) in &self.names {
            if names.get(name) != Some(number) && random.below(2) == 0 {
                names.insert(name.clone(), *number);
            }
        }
        names.retain(|name, number| {
            self.names.get(name) == Some(number)
                || !self.durable_names.contains_key(name)
                || random.below(2) == 0
        });
        names
    }
}

enum Refused {
    /// The power went at this very call.
    Cut,
    Off,
    Failed,
    Full,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Cut | Refused::Off => io::Error::other("the power is off"),
            Refused::Failed => io::Error::other("an injected failure"),
            Refused::Full => io::ErrorKind::StorageFull.into(),
        }
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        if let Some(place) = self.seen.get_mut(offset..end) {
            place.copy_from_slice(bytes);
        }
        if !bytes.is_empty() {
            for sector in offset / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES {
                self.pending.insert(sector, true);
            }
        }
    }

    fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        for (sector, alive) in pending {
            if alive {
                self.persist(sector);
            } else {
                self.pending.insert(sector, false);
            }
        }
    }

    fn persist(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.seen.len());
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        if let (Some(to), Some(from)) =
            (self.durable.get_mut(start..end), self.seen.get(start..end))
        {
            to.copy_from_slice(from);
        }
    }

    fn surviving(&self, random: &mut SplitMix64) -> Self {
        let mut after = self.clone();
        for sector in self.pending.keys() {
            if random.below(2) == 0 {
                after.persist(*sector);
            }
        }
        after.seen.clone_from(&after.durable);
        after.pending.clear();
        after
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.call()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.call()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = state.files.len();
        state.files.push(Content::default());
        state.names.insert(name.to_owned(), number);
        Ok(Box::new(SimFile {
            disk: self.clone(),
            number,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.call()?;
        let number = *(state.names.get(name)).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimFile {
            disk: self.clone(),
            number,
        }))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        (state.names.remove(name)).map_or_else(|| Err(io::ErrorKind::NotFound.into()), |_| Ok(()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        let number = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), number);
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        state.durable_names = state.names.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    number: usize,
}

impl DiskFile for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.call()?;
        let file = (state.files.get(self.number)).ok_or(io::ErrorKind::NotFound)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let from = (file.seen.get(start..start.saturating_add(bytes.len())))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let outcome = state.call();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let used = state.used();
        let mut room = (state.capacity).map_or(u64::MAX, |capacity| capacity.saturating_sub(used));
        let part = state.random.below(bytes.len() as u64 + 1);
        let file = (state.files.get_mut(self.number)).ok_or(io::ErrorKind::NotFound)?;
        room = room.saturating_add((file.seen.len() as u64).saturating_sub(offset));
        let (done, outcome) = match outcome {
            Ok(()) if room < bytes.len() as u64 => (room, Err(io::ErrorKind::StorageFull.into())),
            Ok(()) => (bytes.len() as u64, Ok(())),
            Err(Refused::Off) => (0, Err(Refused::Off.into())),
            // The kernel may have taken all of it, and may have written it back, before the end.
            Err(Refused::Cut) => (bytes.len() as u64, Err(Refused::Cut.into())),
            Err(refused @ (Refused::Failed | Refused::Full)) => (part, Err(refused.into())),
        };
        let done = usize::try_from(done).map_err(io::Error::other)?;
        file.write(start, bytes.get(..done).unwrap_or(bytes));
        outcome
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.syncs += 1;
        let outcome = state.call();
        let file = (state.files.get_mut(self.number)).ok_or(io::ErrorKind::NotFound)?;
        match outcome {
            Ok(()) => {
                file.sync();
                Ok(())
            }
            // The kernel drops what it could not write; what it was not asked for it still has.
            Err(refused @ (Refused::Failed | Refused::Full)) => {
                file.pending.values_mut().for_each(|alive| *alive = false);
                Err(refused.into())
            }
            Err(refused @ (Refused::Cut | Refused::Off)) => Err(refused.into()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.call()?;
        let file = (state.files.get(self.number)).ok_or(io::ErrorKind::NotFound)?;
        Ok(file.seen.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(disk: &SimDisk, name: &str) -> Vec<u8> {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_a_choice_of_sectors_of_the_rest() {
        let disk = SimDisk::new(0);
        let file = disk.create("a").unwrap();
        file.write_at(0, &[1; 2048]).unwrap();
        file.sync().unwrap();
        disk.sync_folder().unwrap();
        file.write_at(512, &[2; 1024]).unwrap();

        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let bytes = content(&disk.restart(seed), "a");
            assert_eq!(bytes.len(), 2048);
            assert!(bytes[..512].iter().all(|byte| *byte == 1));
            assert!(bytes[1536..].iter().all(|byte| *byte == 1));
            assert!(
                bytes
                    .chunks(512)
                    .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
            );
            seen.insert((bytes[512], bytes[1024]));
        }
        assert_eq!(seen.len(), 4, "every mix of old and new sectors occurs");
        assert_eq!(content(&disk.survive_kill(), "a")[512], 2);
    }

    #[test]
    fn names_survive_for_certain_only_when_the_folder_was_synced() {
        let disk = SimDisk::new(0);
        disk.create("synced").unwrap();
        disk.create("removed").unwrap();
        disk.sync_folder().unwrap();
        disk.create("new").unwrap();
        disk.delete("removed").unwrap();
        let lists: std::collections::BTreeSet<Vec<String>> = (0..64)
            .map(|seed| disk.restart(seed).list().unwrap())
            .collect();
        assert_eq!(lists.len(), 4);
        assert!(
            lists
                .iter()
                .all(|names| names.contains(&"synced".to_owned()))
        );
    }

    #[test]
    fn a_failed_sync_loses_its_bytes_though_a_later_one_succeeds() {
        let disk = SimDisk::new(0);
        let file = disk.create("a").unwrap();
        disk.sync_folder().unwrap();
        file.write_at(0, &[1; 512]).unwrap();
        disk.set_fault(Some(Fault::FailAt(disk.calls())));
        assert!(file.sync().is_err());
        assert!(file.sync().is_ok());
        let lost = (0..16).any(|seed| content(&disk.restart(seed), "a").is_empty());
        assert!(lost);
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_overwrites_need_no_room() {
        let disk = SimDisk::new(0);
        let file = disk.create("a").unwrap();
        disk.set_capacity(Some(1_000));
        file.write_at(0, &[1; 999]).unwrap();
        file.write_at(999, &[1; 1]).unwrap();
        let error = file.write_at(1_000, &[1; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(0, &[2; 1_000]).unwrap();
        disk.set_capacity(Some(1_001));
        file.write_at(1_000, &[1; 1]).unwrap();
        assert_eq!(disk.used(), 1_001);
    }

    #[test]
    fn after_a_power_cut_nothing_works() {
        let disk = SimDisk::new(0);
        disk.set_fault(Some(Fault::CutAt(1)));
        let file = disk.create("a").unwrap();
        assert!(file.write_at(0, &[1]).is_err());
        assert!(file.sync().is_err());
        assert!(disk.list().is_err());
    }
}
