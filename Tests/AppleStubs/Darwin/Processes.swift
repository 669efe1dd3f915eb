// swift-format-ignore-file: AlwaysUseLowerCamelCase
// The names are Apple's.

// The shapes of <sys/event.h>, <sys/sysctl.h>, <sys/proc.h>, <time.h>, <signal.h>, <pthread.h>, <spawn.h> and
// <sys/socket.h> where they differ from Linux's.

@_exported import DarwinCalls
@_exported import Glibc

// MARK: kqueue(2)

public struct kevent: EventStructure {
    public var ident: UInt = 0
    public var filter: Int16 = 0
    public var flags: UInt16 = 0
    public var fflags: UInt32 = 0
    public var data: Int = 0
    public var udata: UnsafeMutableRawPointer!
    public init() {}
    public init(
        ident: UInt,
        filter: Int16,
        flags: UInt16,
        fflags: UInt32,
        data: Int,
        udata: UnsafeMutableRawPointer!
    ) { notHere() }
}

public func kqueue() -> Int32 { notHere() }

public let EVFILT_VNODE: Int32 = -4
public let EV_ADD: Int32 = 0x0001
public let EV_ONESHOT: Int32 = 0x0010
public let EV_CLEAR: Int32 = 0x0020
public let NOTE_DELETE: Int32 = 0x01
public let NOTE_WRITE: Int32 = 0x02
public let NOTE_EXTEND: Int32 = 0x04
public let NOTE_RENAME: Int32 = 0x20
public let NOTE_REVOKE: Int32 = 0x40

// MARK: sysctl(3)

public let CTL_KERN: Int32 = 1
public let KERN_PROC: Int32 = 14
public let KERN_PROC_PID: Int32 = 1
public let SSTOP: Int32 = 4
public let SZOMB: Int32 = 5

public func sysctl(
    _ name: UnsafeMutablePointer<Int32>!,
    _ nameCount: u_int,
    _ old: UnsafeMutableRawPointer!,
    _ oldSize: UnsafeMutablePointer<Int>!,
    _ new: UnsafeMutableRawPointer!,
    _ newSize: Int
) -> Int32 { notHere() }
public func sysctlbyname(
    _ name: UnsafePointer<CChar>!,
    _ old: UnsafeMutableRawPointer!,
    _ oldSize: UnsafeMutablePointer<Int>!,
    _ new: UnsafeMutableRawPointer!,
    _ newSize: Int
) -> Int32 { notHere() }

public struct timeval {
    public var tv_sec: Int = 0
    public var tv_usec: Int32 = 0
    public init() {}
}

public struct extern_proc {
    /// A union. C reaches the time by a macro, `p_starttime`, which Swift does not import.
    public struct p_un_union {
        public var __p_starttime = timeval()
    }
    public var p_un = p_un_union()
    public var p_flag: Int32 = 0
    public var p_stat: CChar = 0
    public var p_pid: pid_t = 0
    /// `char [MAXCOMLEN + 1]`
    public var p_comm:
        (
            CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar,
            CChar,
            CChar
        ) = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

public struct kinfo_proc {
    public var kp_proc = extern_proc()
    public init() {}
}

// MARK: Time, threads

public struct clockid_t: RawRepresentable, Equatable, Sendable {
    public var rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}
public let CLOCK_MONOTONIC_RAW = clockid_t(rawValue: 4)
public let CLOCK_UPTIME_RAW = clockid_t(rawValue: 8)
public let CLOCK_UPTIME_RAW_APPROX = clockid_t(rawValue: 9)
public func clock_gettime_nsec_np(_ clock: clockid_t) -> UInt64 { notHere() }

public struct _opaque_pthread_t {}
public typealias pthread_t = UnsafeMutablePointer<_opaque_pthread_t>
public struct pthread_attr_t {}
public func pthread_self() -> pthread_t { notHere() }
public func pthread_create(
    _: UnsafeMutablePointer<pthread_t?>,
    _: UnsafePointer<pthread_attr_t>?,
    _: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?,
    _: UnsafeMutableRawPointer?
) -> Int32 { notHere() }
@discardableResult
public func pthread_detach(_: pthread_t) -> Int32 { notHere() }

// MARK: posix_spawn(2), socket(2)

public typealias posix_spawnattr_t = UnsafeMutableRawPointer
public typealias posix_spawn_file_actions_t = UnsafeMutableRawPointer

@discardableResult
public func posix_spawnattr_init(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>!) -> Int32 { notHere() }
@discardableResult
public func posix_spawnattr_destroy(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>!) -> Int32 { notHere() }
@discardableResult
public func posix_spawnattr_setflags(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>!, _ flags: Int16) -> Int32 {
    notHere()
}
@discardableResult
public func posix_spawnattr_setpgroup(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>!, _ group: pid_t) -> Int32
{
    notHere()
}
@discardableResult
public func posix_spawnattr_setsigmask(
    _ attributes: UnsafeMutablePointer<posix_spawnattr_t?>!,
    _ mask: UnsafePointer<sigset_t>!
) -> Int32 { notHere() }
@discardableResult
public func posix_spawnattr_setsigdefault(
    _ attributes: UnsafeMutablePointer<posix_spawnattr_t?>!,
    _ signals: UnsafePointer<sigset_t>!
) -> Int32 { notHere() }
@discardableResult
public func posix_spawn_file_actions_init(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>!
) -> Int32 { notHere() }
@discardableResult
public func posix_spawn_file_actions_destroy(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>!
) -> Int32 { notHere() }
@discardableResult
public func posix_spawn_file_actions_adddup2(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>!,
    _ from: Int32,
    _ to: Int32
) -> Int32 { notHere() }
@discardableResult
public func posix_spawn_file_actions_addopen(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>!,
    _ descriptor: Int32,
    _ path: UnsafePointer<CChar>!,
    _ flags: Int32,
    _ mode: mode_t
) -> Int32 { notHere() }
@discardableResult
public func posix_spawn_file_actions_addclose(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>!,
    _ descriptor: Int32
) -> Int32 { notHere() }
@discardableResult
public func posix_spawn(
    _ pid: UnsafeMutablePointer<pid_t>!,
    _ path: UnsafePointer<CChar>!,
    _ actions: UnsafePointer<posix_spawn_file_actions_t?>!,
    _ attributes: UnsafePointer<posix_spawnattr_t?>!,
    _ arguments: UnsafePointer<UnsafeMutablePointer<CChar>?>!,
    _ environment: UnsafePointer<UnsafeMutablePointer<CChar>?>!
) -> Int32 { notHere() }
@discardableResult
public func posix_spawnp(
    _ pid: UnsafeMutablePointer<pid_t>!,
    _ file: UnsafePointer<CChar>!,
    _ actions: UnsafePointer<posix_spawn_file_actions_t?>!,
    _ attributes: UnsafePointer<posix_spawnattr_t?>!,
    _ arguments: UnsafePointer<UnsafeMutablePointer<CChar>?>!,
    _ environment: UnsafePointer<UnsafeMutablePointer<CChar>?>!
) -> Int32 { notHere() }

public let SOCK_STREAM: Int32 = 1
public let SO_NOSIGPIPE: Int32 = 0x1022

// MARK: sigaction(2)

public struct __sigaction_u {
    public var __sa_handler: (@convention(c) (Int32) -> Void)!
}

extension sigaction {
    public var __sigaction_u: __sigaction_u {
        get { notHere() }
        set { notHere() }
    }
}
