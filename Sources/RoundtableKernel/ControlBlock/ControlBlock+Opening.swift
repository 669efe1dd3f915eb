#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ControlBlock {
    /// Why there is no control block to work with.
    package enum Unusable: Error, Equatable, CustomStringConvertible {
        case absent
        /// A later, or much earlier, Roundtable made it. It is left alone (rule L1).
        case otherVersion(UInt32)
        /// Not a control block, or a damaged one (rule L2).
        case damaged
        case system(SystemError)
        /// All slots belong to processes that are alive.
        case full

        package var description: String {
            switch self {
            case .absent: "there is no control block"
            case .otherVersion(let version):
                "the control block has layout version \(version), this Roundtable knows \(Layout.version)"
            case .damaged: "the control block is damaged"
            case .system(let error): error.description
            case .full: "all \(Layout.slotCount) places of the control block are taken"
            }
        }
    }

    /// Maps the block at `path`. Creates nothing.
    package static func open(at path: String, writable: Bool) throws(Unusable) -> ControlBlock {
        do {
            let block = ControlBlock(
                path: path,
                file: try MappedFile(path: path, size: Layout.fileSize, writable: writable)
            )
            try block.checkSeal()
            return block
        } catch let error as Unusable {
            throw error
        } catch let error as SystemError {
            switch (error.call, error.errno) {
            case (.open, ENOENT), (.open, ENOTDIR): throw .absent
            // Another size. The seal may still tell of another version.
            case (.fstat, EINVAL): throw unusableBySeal(at: path)
            default: throw .system(error)
            }
        } catch {
            preconditionFailure("only system errors come from mapping: \(error)")
        }
    }

    /// Maps the block at `path`, after creating it if it is absent (rule B1), or replacing it if it is none (rule L2).
    ///
    /// - parameter access: for a new file; nil leaves it to the umask.
    package static func openOrCreate(at path: String, access: FileAccess?) throws(Unusable) -> ControlBlock {
        var last = Unusable.absent
        // Each round that does not return met another process that created, replaced or removed the file meanwhile.
        for _ in 0..<16 {
            let identity = try wrappingSystemErrors { try System.identity(ofFileAt: path) }
            do {
                return try open(at: path, writable: true)
            } catch .absent {
                last = .absent
            } catch .damaged {
                last = .damaged
                try wrappingSystemErrors {
                    if let identity { try System.removeFile(at: path, ifStill: identity) }
                }
            }
            try wrappingSystemErrors {
                let image = Layout.seal() + [UInt8](repeating: 0, count: Layout.fileSize - Layout.seal().count)
                let suffix = "\(getpid())-\(MonotonicClock.now)"
                _ = try System.createWhole(image, at: path, access: access, suffix: suffix)
            }
        }
        throw last
    }

    /// Whether the seal is whole and the mapping still shows the file. Two loads; asked before each turn (rule L3).
    package var isIntact: Bool {
        !file.isLost && word(at: Layout.Header.magic).pointee.load(ordering: .relaxed) == Layout.magic
            && halfWord(at: Layout.Header.version).pointee.load(ordering: .relaxed) == Layout.version
    }

    /// Whether the file at `path` is still the one that is mapped, and whole (rules L3, L4).
    package var isInPlace: Bool {
        guard let status = try? System.status(ofFileAt: path) else { return false }
        return FileIdentity(status) == file.identity && Int(status.st_size) == file.size
    }

    private func checkSeal() throws(Unusable) {
        let seal = Layout.seal()
        let found = (0..<seal.count).map { file.base.load(fromByteOffset: $0, as: UInt8.self) }
        if found == seal { return }
        throw Self.unusable(byPrefix: found)
    }

    private static func unusable(byPrefix bytes: [UInt8]) -> Unusable {
        func number<T: FixedWidthInteger>(at offset: Int, as type: T.Type) -> T {
            bytes[offset..<offset + MemoryLayout<T>.size].reversed().reduce(0) { $0 << 8 | T($1) }
        }
        guard bytes.count >= 12, number(at: Layout.Header.magic, as: UInt64.self) == Layout.magic else {
            return .damaged
        }
        let version = number(at: Layout.Header.version, as: UInt32.self)
        return version == Layout.version ? .damaged : .otherVersion(version)
    }

    private static func unusableBySeal(at path: String) -> Unusable {
        do {
            let descriptor = try System.perform(.open, path) { openForReading(path) }
            defer { close(descriptor) }
            var bytes = [UInt8](repeating: 0, count: 12)
            let count = read(descriptor, &bytes, bytes.count)
            return unusable(byPrefix: Array(bytes.prefix(max(0, count))))
        } catch let error as SystemError {
            return .system(error)
        } catch {
            preconditionFailure("only system errors come from opening: \(error)")
        }
    }
}

private func openForReading(_ path: String) -> Int32 { open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) }

private func wrappingSystemErrors<T>(_ body: () throws -> T) throws(ControlBlock.Unusable) -> T {
    do {
        return try body()
    } catch let error as SystemError {
        throw .system(error)
    } catch {
        preconditionFailure("only system errors come from the system: \(error)")
    }
}
