// swift-format-ignore-file: AlwaysUseLowerCamelCase
// The names are Apple's.

// The shapes of <sys/stat.h>, <sys/mount.h>, <sys/attr.h> and <fcntl.h> where they differ from Linux's.

@_exported import DarwinCalls
@_exported import Glibc

public typealias dev_t = Int32
public typealias ino_t = UInt64
public typealias mode_t = UInt16
public typealias nlink_t = UInt16
public typealias u_int = UInt32
public typealias u_short = UInt16
public typealias attrgroup_t = UInt32

public struct stat: StatusStructure {
    public var st_dev: dev_t = 0
    public var st_mode: mode_t = 0
    public var st_nlink: nlink_t = 0
    public var st_ino: ino_t = 0
    public var st_uid: uid_t = 0
    public var st_gid: gid_t = 0
    public var st_rdev: dev_t = 0
    public var st_atimespec = timespec()
    public var st_mtimespec = timespec()
    public var st_ctimespec = timespec()
    public var st_birthtimespec = timespec()
    public var st_size: Int64 = 0
    public var st_blocks: Int64 = 0
    public var st_blksize: Int32 = 0
    public var st_flags: UInt32 = 0
    public var st_gen: UInt32 = 0
    public init() {}
}

public var S_IFMT: mode_t { 0o170000 }
public var S_IFREG: mode_t { 0o100000 }
public var S_IFDIR: mode_t { 0o040000 }
public var S_IFLNK: mode_t { 0o120000 }
public var S_ISGID: mode_t { 0o002000 }
public var S_ISVTX: mode_t { 0o001000 }

public let O_EVTONLY: Int32 = 0x8000

public let F_FULLFSYNC: Int32 = 51

public func chmod(_ path: UnsafePointer<CChar>!, _ mode: mode_t) -> Int32 { notHere() }
public func fchmod(_ descriptor: Int32, _ mode: mode_t) -> Int32 { notHere() }

/// Of <unistd.h>, where groups are `int`.
public func getgrouplist(
    _ name: UnsafePointer<CChar>!,
    _ group: Int32,
    _ groups: UnsafeMutablePointer<Int32>!,
    _ count: UnsafeMutablePointer<Int32>!
) -> Int32 { notHere() }

public let MNT_LOCAL: Int32 = 0x0000_1000

public struct statfs: FileSystemStructure {
    public var f_bsize: UInt32 = 0
    public var f_iosize: Int32 = 0
    public var f_blocks: UInt64 = 0
    public var f_type: UInt32 = 0
    public var f_flags: UInt32 = 0
    /// `char [MFSTYPENAMELEN]`
    public var f_fstypename:
        (
            CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar, CChar,
            CChar
        ) = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    public init() {}
}

public let ATTR_BIT_MAP_COUNT: Int32 = 5
public let ATTR_CMN_DATA_PROTECT_FLAGS: Int32 = 0x4000_0000
public let FSOPT_NOFOLLOW: Int32 = 0x0000_0001

public struct attrlist {
    public var bitmapcount: u_short = 0
    public var reserved: UInt16 = 0
    public var commonattr: attrgroup_t = 0
    public var volattr: attrgroup_t = 0
    public var dirattr: attrgroup_t = 0
    public var fileattr: attrgroup_t = 0
    public var forkattr: attrgroup_t = 0
    public init() {}
}

public func getattrlist(
    _ path: UnsafePointer<CChar>!,
    _ attributes: UnsafeMutableRawPointer!,
    _ buffer: UnsafeMutableRawPointer!,
    _ size: Int,
    _ options: UInt32
) -> Int32 { notHere() }

public func setattrlist(
    _ path: UnsafePointer<CChar>!,
    _ attributes: UnsafeMutableRawPointer!,
    _ buffer: UnsafeMutableRawPointer!,
    _ size: Int,
    _ options: UInt32
) -> Int32 { notHere() }

/// Nothing of the stubs is ever run.
func notHere() -> Never { fatalError("a stub was run") }
