//! The process at the other end of a loopback connection, found through `/proc` and watched by a
//! descriptor that outlives the reuse of its id. On other systems, or where `/proc` may not be read,
//! no process is ever found.

use crate::host::queue::Key;
use std::net::SocketAddr;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Process;
#[cfg(target_os = "linux")]
pub(crate) use linux::Process;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Key, SocketAddr};

    /// No process is ever found.
    #[derive(Debug)]
    pub(crate) enum Process {}

    impl Process {
        pub(crate) async fn behind(_: SocketAddr, _: SocketAddr) -> Option<Self> {
            None
        }

        pub(crate) fn key(&self) -> Key {
            match *self {}
        }

        pub(crate) fn is_alive(&self) -> bool {
            match *self {}
        }

        pub(crate) async fn exited(&self) {
            match *self {}
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Key, SocketAddr};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::{
        fs,
        net::{IpAddr, Ipv4Addr, Ipv6Addr},
        os::fd::OwnedFd,
        path::Path,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// A process that is or was running.
    #[derive(Debug)]
    pub(crate) struct Process {
        id: i32,
        /// When it was born, in the system's ticks: with the id it names one process for ever.
        born: u64,
        descriptor: AsyncFd<OwnedFd>,
    }

    impl Process {
        /// The process that holds the socket at `remote` of a connection to `local`.
        pub(crate) async fn behind(remote: SocketAddr, local: SocketAddr) -> Option<Self> {
            if !remote.ip().to_canonical().is_loopback() {
                return None;
            }
            // Reading all of `/proc` takes milliseconds when there are many processes.
            let found = tokio::task::spawn_blocking(move || holder(remote, local));
            let (id, born, descriptor) = found.await.ok()??;
            #[expect(
                deprecated,
                reason = "unsound only for types whose descriptor changes; this one is owned"
            )]
            let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE).ok()?;
            Some(Self {
                id,
                born,
                descriptor,
            })
        }

        pub(crate) fn key(&self) -> Key {
            Key::Process(self.id, self.born)
        }

        pub(crate) fn is_alive(&self) -> bool {
            birth(self.id) == Some(self.born)
        }

        /// Waits until it has exited.
        pub(crate) async fn exited(&self) {
            // Readable means exited; a descriptor that cannot be waited for tells nothing.
            if self.descriptor.readable().await.is_err() {
                std::future::pending().await
            }
        }
    }

    fn holder(remote: SocketAddr, local: SocketAddr) -> Option<(i32, u64, OwnedFd)> {
        let inode = inode(remote, local)?;
        let link = format!("socket:[{inode}]");
        let ids = fs::read_dir("/proc").ok()?.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.parse::<i32>().ok()
        });
        // After a fork several have it; the eldest opened it.
        let (born, id) = ids
            .filter(|id| holds(*id, &link))
            .filter_map(|id| Some((birth(id)?, id)))
            .min()?;
        let descriptor = pidfd_open(Pid::from_raw(id)?, PidfdFlags::NONBLOCK).ok()?;
        // The id may have been given to another process since; the descriptor stays with one.
        (birth(id) == Some(born) && holds(id, &link)).then_some((id, born, descriptor))
    }

    fn holds(id: i32, link: &str) -> bool {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{id}/fd")) else {
            return false;
        };
        descriptors
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .any(|target| target == Path::new(link))
    }

    /// When a process was born, if it is alive. A zombie is not.
    fn birth(id: i32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name, in parentheses, may contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?;
        (!matches!(state, "Z" | "X")).then_some(())?;
        // The 22nd field of the line; the state is the 3rd.
        fields.nth(18)?.parse().ok()
    }

    /// The inode of the socket that is bound to `own` and connected to `other`.
    fn inode(own: SocketAddr, other: SocketAddr) -> Option<u64> {
        ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .find_map(|table| {
                let text = fs::read_to_string(table).ok()?;
                text.lines().skip(1).find_map(|line| {
                    let mut fields = line.split_whitespace().skip(1);
                    let ends = (address(fields.next()?)?, address(fields.next()?)?);
                    let inode = fields.nth(6)?.parse().ok()?;
                    let wanted = (plain(own), plain(other));
                    (ends == wanted && inode != 0).then_some(inode)
                })
            })
    }

    fn plain(address: SocketAddr) -> (IpAddr, u16) {
        (address.ip().to_canonical(), address.port())
    }

    /// An address as the kernel writes it: words in the machine's byte order, in hexadecimal.
    pub(super) fn address(text: &str) -> Option<(IpAddr, u16)> {
        let (ip, port) = text.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let word = |index: usize| {
            let digits = ip.get(index * 8..index * 8 + 8)?;
            Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
        };
        let ip = match ip.len() {
            8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
            32 => {
                let words = [word(0)?, word(1)?, word(2)?, word(3)?];
                let bytes: [u8; 16] = words.concat().try_into().ok()?;
                IpAddr::V6(Ipv6Addr::from(bytes))
            }
            _ => return None,
        };
        Some((ip.to_canonical(), port))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::{net::IpAddr, process::Stdio};
    use tokio::net::{TcpListener, TcpStream};

    #[cfg(target_endian = "little")]
    #[test]
    fn the_kernels_addresses_are_read() {
        for (text, ip, port) in [
            ("0100007F:1F90", "127.0.0.1", 8080),
            ("00000000000000000000000001000000:0001", "::1", 1),
            ("0000000000000000FFFF00000100007F:FFFF", "127.0.0.1", 65535),
        ] {
            let expected: IpAddr = ip.parse().unwrap();
            assert_eq!(linux::address(text), Some((expected, port)));
        }
        for text in ["", "0100007F", "0100007:1", "zz00007F:1", "0100007F:fffff"] {
            assert_eq!(linux::address(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn the_process_behind_a_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let stream = TcpStream::connect(local).await.unwrap();
        let remote = stream.local_addr().unwrap();
        let process = Process::behind(remote, local).await.unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(process.key(), Key::Process(id, _) if id == own));
        assert!(process.is_alive());
        drop(stream);
        let nobody = Process::behind("127.0.0.1:1".parse().unwrap(), local).await;
        assert!(nobody.is_none());
    }

    #[tokio::test]
    async fn the_exit_of_another_process_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; read line", local.port());
        let mut shell = tokio::process::Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (_stream, remote) = listener.accept().await.unwrap();
        let process = Process::behind(remote, local).await.unwrap();
        assert!(process.is_alive());
        shell.start_kill().unwrap();
        process.exited().await;
        shell.wait().await.unwrap();
        assert!(!process.is_alive());
    }
}
