#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension OpenFolder {
    /// Removes a file, or a folder of this user with all that is in it. No symbolic link is followed, and no other file system is entered. A
    /// folder that another user owns or may write stays, because its owner decides what is in it while it is being removed.
    ///
    /// A user who may write this folder can give the name to another folder of this user. So this is for a name that this user has given, and
    /// ``StagingFolder/remove(_:in:)`` for what a process finds.
    ///
    /// - returns: false when nothing was removed, or not all.
    package func removeAll(_ name: String) throws -> Bool {
        try removeAll(name, on: status().st_dev, isInOwnFolder: false)
    }

    private func removeAll(_ name: String, on device: dev_t, isInOwnFolder: Bool) throws -> Bool {
        guard let status = try status(ofFile: name) else { return false }
        guard status.isFolder else { return try removeFile(name) }
        do {
            let folder = try folder(name)
            let opened = try folder.status()
            // What is in an own folder was put there by this user, with any mode that a program has given it.
            guard opened.st_dev == device, try isInOwnFolder ? opened.st_uid == geteuid() : folder.isOwn,
                try folder.removeContents()
            else { return false }
            try System.perform(.unlink, file(name)) { unlinkat(descriptor, name, AT_REMOVEDIR) }
            return true
        } catch let error as SystemError where error.errno == ENOENT {
            return false
        }
    }

    /// Removes all that is in this own folder, as ``removeAll(_:)`` does.
    ///
    /// - returns: whether the folder is empty now.
    @discardableResult
    func removeContents() throws -> Bool {
        let device = try status().st_dev
        for name in try names() where name != StagingFolder.mark {
            _ = try removeAll(name, on: device, isInOwnFolder: true)
        }
        // The mark goes last, so that what is left of the folder when the process is killed is still removed later.
        var left = try names()
        if left == [StagingFolder.mark], try removeFile(StagingFolder.mark) { left = [] }
        return left.isEmpty
    }
}
