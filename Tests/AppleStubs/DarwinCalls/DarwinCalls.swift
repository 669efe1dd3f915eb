// swift-format-ignore-file: AlwaysUseLowerCamelCase
// The names are Apple's.

// The functions of Darwin that share their name with a type, which one Swift module cannot have.

import Glibc

// Generic, because the types are declared in the module that imports this one; `stat` and its like are the only arguments there are.

func notHere() -> Never { fatalError("a stub was run") }

public protocol StatusStructure {}
public protocol FileSystemStructure {}
public protocol EventStructure {}

public func stat<Status: StatusStructure>(
    _ path: UnsafePointer<CChar>!,
    _ status: UnsafeMutablePointer<Status>!
) -> Int32 { notHere() }
public func lstat<Status: StatusStructure>(
    _ path: UnsafePointer<CChar>!,
    _ status: UnsafeMutablePointer<Status>!
) -> Int32 { notHere() }
public func fstat<Status: StatusStructure>(
    _ descriptor: Int32,
    _ status: UnsafeMutablePointer<Status>!
) -> Int32 { notHere() }

public func fstatat<Status: StatusStructure>(
    _ folder: Int32,
    _ path: UnsafePointer<CChar>!,
    _ status: UnsafeMutablePointer<Status>!,
    _ flags: Int32
) -> Int32 { notHere() }

public func statfs<Info: FileSystemStructure>(
    _ path: UnsafePointer<CChar>!,
    _ info: UnsafeMutablePointer<Info>!
) -> Int32 { notHere() }

public func kevent<Event: EventStructure>(
    _ queue: Int32,
    _ changes: UnsafePointer<Event>!,
    _ changeCount: Int32,
    _ events: UnsafeMutablePointer<Event>!,
    _ eventCount: Int32,
    _ timeout: UnsafePointer<timespec>!
) -> Int32 { notHere() }
