//! The system calls that no safe crate offers, each behind a safe function that keeps nothing.
//!
//! Architecture invariant: this is the only module of the crate with `unsafe`.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use libc::c_long;
use rustix::io::Errno;
use rustix::process::{Gid, Signal, Uid, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_thread_res_gid, set_thread_res_uid,
};

/// Whose use of resources is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    Process,
    Children,
    Thread,
}

/// `getrusage`.
pub(crate) fn rusage(who: Who) -> libc::rusage {
    let who = match who {
        Who::Process => libc::RUSAGE_SELF,
        Who::Children => libc::RUSAGE_CHILDREN,
        Who::Thread => libc::RUSAGE_THREAD,
    };
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of a whole rusage, which is all that the call writes.
    let rc = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    debug_assert_eq!(
        rc, 0,
        "getrusage fails only for an unknown `who` or a bad pointer"
    );
    // SAFETY: rusage is plain integers, for which the zeroes it was filled with are valid, and so is
    // whatever the kernel wrote over them.
    unsafe { usage.assume_init() }
}

/// Has what `command` starts be sent SIGTERM when the thread that starts it ends.
pub(crate) fn end_with_thread(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // It may have ended before the kernel knew what to do then.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and looks at its own copy of a number; its
    // errors are numbers too, so nothing is allocated, locked or shared.
    unsafe { command.pre_exec(ask) };
}

/// Has what `command` starts run as this user, and the group of the same number, with one right of the superuser left:
/// to read and write all files.
pub(crate) fn run_as(command: &mut Command, user: u32) {
    let become_user = move || {
        set_keep_capabilities(true)?;
        let group = Gid::from_raw(user);
        set_thread_res_gid(group, group, group)?;
        let user = Uid::from_raw(user);
        set_thread_res_uid(user, user, user)?;
        let files = CapabilitySet::DAC_OVERRIDE;
        set_capabilities(
            None,
            CapabilitySets {
                effective: files,
                permitted: files,
                inheritable: files,
            },
        )?;
        configure_capability_in_ambient_set(files, true)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls with numbers of its own; its errors are numbers too,
    // so nothing is allocated, locked or shared.
    unsafe { command.pre_exec(become_user) };
}

/// `mallopt`, of how large something is that is mapped for itself.
#[cfg(target_env = "gnu")]
pub(crate) fn map_from(bytes: libc::c_int) {
    // SAFETY: it changes a number of malloc's under its lock.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) };
}

/// Nothing: this C library gives freed memory back by rules of its own.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn map_from(_: libc::c_int) {}

/// The user and the process at the other end of a local socket. (`rustix` has no process 0, which stands for one that
/// cannot be seen.)
pub(crate) fn peer(socket: &impl AsRawFd) -> io::Result<(u32, i32)> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `size` bytes, which are all of plain integers, and the size of what it
    // has written.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    match rc {
        0 => Ok((peer.uid, peer.pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The C library's own version, such as `2.36`; `None` where it is not the GNU one.
#[cfg(target_env = "gnu")]
pub(crate) fn gnu_libc_version() -> Option<String> {
    // SAFETY: takes nothing, and returns a pointer to a constant string with a terminating zero that
    // lives as long as the program.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// The C library's own version, such as `2.36`; `None` where it is not the GNU one.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn gnu_libc_version() -> Option<String> {
    None
}

/// The thread library's own name and version, such as `NPTL 2.36`.
#[cfg(target_env = "gnu")]
pub(crate) fn thread_library() -> Option<String> {
    let mut buffer = [0_u8; 64];
    // SAFETY: the pointer and the length describe `buffer`, and the call writes no more than that length.
    unsafe {
        libc::confstr(
            libc::_CS_GNU_LIBPTHREAD_VERSION,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    // Of an unknown name nothing is written, and of one that is too long as much as there is room for before a zero.
    let text = CStr::from_bytes_until_nul(&buffer).ok()?;
    (!text.is_empty()).then(|| text.to_string_lossy().into_owned())
}

/// The thread library's own name and version, such as `NPTL 2.36`.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn thread_library() -> Option<String> {
    None
}

/// Asks for an io_uring of one entry and closes it again.
pub(crate) fn try_io_uring() -> io::Result<()> {
    // struct io_uring_params: 120 bytes, all zero asks for the defaults.
    let mut params = [0_u64; 15];
    // SAFETY: the kernel reads and writes the 120 bytes of io_uring_params, which `params` has, aligned
    // to 8 as the struct needs; the other argument is a plain number.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1 as c_long, params.as_mut_ptr()) };
    close_or_error(fd)
}

/// Opens a counter of CPU cycles of this thread in user space and closes it again.
pub(crate) fn try_hardware_counter() -> io::Result<()> {
    // struct perf_event_attr up to its first published size, PERF_ATTR_SIZE_VER0 = 64 bytes:
    // type (u32) = 0 PERF_TYPE_HARDWARE, size (u32), config (u64) = 0 PERF_COUNT_HW_CPU_CYCLES,
    // sample period, sample type, read format, then flags: disabled, exclude_kernel, exclude_hv.
    const SIZE: u32 = 64;
    const PERF_FLAG_FD_CLOEXEC: c_long = 8;
    const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
    let type_and_size = u64::from_ne_bytes({
        let mut bytes = [0_u8; 8];
        bytes[4..].copy_from_slice(&SIZE.to_ne_bytes());
        bytes
    });
    let attr: [u64; 8] = [type_and_size, 0, 0, 0, 0, FLAGS, 0, 0];
    // SAFETY: the kernel reads the 64 bytes that the size field states, which `attr` has, aligned to 8;
    // it may write the size field of a refused attr back, so the pointer is to memory of our own that
    // nothing else looks at. The other arguments are plain numbers.
    let fd = unsafe {
        let mut attr = attr;
        let (this_thread, any_cpu, no_group) = (0 as c_long, -1 as c_long, -1 as c_long);
        let (call, attr) = (libc::SYS_perf_event_open, attr.as_mut_ptr());
        libc::syscall(call, attr, this_thread, any_cpu, no_group, PERF_FLAG_FD_CLOEXEC)
    };
    close_or_error(fd)
}

fn close_or_error(fd: c_long) -> io::Result<()> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened by our caller a moment ago and is known to nobody else.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}

/// The signature that a hypervisor shows in CPUID leaf 0x4000_0000, such as `KVMKVMKVM`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hypervisor_signature() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    let leaf = __cpuid(0x4000_0000);
    signature_in(__cpuid(1).ecx, [leaf.ebx, leaf.ecx, leaf.edx])
}

/// The text in these registers, if these features of the processor say that a hypervisor is there to write one.
#[cfg(target_arch = "x86_64")]
fn signature_in(features: u32, registers: [u32; 3]) -> Option<String> {
    const HYPERVISOR_PRESENT: u32 = 1 << 31;
    (features & HYPERVISOR_PRESENT != 0).then(|| text_in(registers))?
}

/// What the processor calls itself in CPUID leaves 0x8000_0002 to 4, such as `AMD EPYC 7B13`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn processor_name() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    const HIGHEST: u32 = 0x8000_0000;
    const NAME: [u32; 3] = [0x8000_0002, 0x8000_0003, 0x8000_0004];
    if __cpuid(HIGHEST).eax < NAME[2] {
        return None;
    }
    let leaves = NAME.map(__cpuid).into_iter();
    text_in(leaves.flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]))
}

/// The same; other processors have no such leaves.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn processor_name() -> Option<String> {
    None
}

/// What can be read of the bytes in these registers; none where that is nothing.
#[cfg(target_arch = "x86_64")]
fn text_in(registers: impl IntoIterator<Item = u32>) -> Option<String> {
    let bytes = registers.into_iter().flat_map(u32::to_le_bytes);
    let text: String = bytes
        .filter(|b| b.is_ascii_graphic() || *b == b' ')
        .map(char::from)
        .collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The signature that a hypervisor shows in CPUID leaf 0x4000_0000, such as `KVMKVMKVM`.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn hypervisor_signature() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_returned_is_closed_or_its_error() {
        use std::io::Read as _;
        use std::os::fd::IntoRawFd as _;
        let (mut read, write) = io::pipe().unwrap();
        close_or_error(write.into_raw_fd().into()).unwrap();
        // Its end can only be read since nobody has the other end.
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
        assert!(close_or_error(-1).is_err());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_signature_is_what_can_be_read_of_three_registers_where_a_hypervisor_is() {
        let of = |features: u32, bytes: &[u8; 12]| {
            let (registers, _) = bytes.as_chunks();
            signature_in(features, [0, 1, 2].map(|at| u32::from_le_bytes(registers[at])))
        };
        let there = 0x8000_0000;
        assert_eq!(of(there, b"KVMKVMKVM\0\0\0").as_deref(), Some("KVMKVMKVM"));
        assert_eq!(of(there, b" lrpepyh vr ").as_deref(), Some("lrpepyh vr"));
        assert_eq!(of(there, b"\0\0\x1b\0 \0 \0\0\0\0\0"), None);
        assert_eq!(of(0x7fff_ffff, b"KVMKVMKVM\0\0\0"), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_counter_that_can_be_had_is_one_of_a_processor_that_the_kernel_lists() {
        let listed = std::fs::read_dir("/sys/bus/event_source/devices").map(|devices| {
            let names = devices.flatten().map(|device| device.file_name());
            names
                .filter(|name| name.to_string_lossy().starts_with("cpu"))
                .count()
        });
        if matches!(listed, Ok(0)) {
            try_hardware_counter().unwrap_err();
        }
    }
}
