#if os(Linux)
    import Foundation
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    @testable import RoundtableTool
    @testable import RoundtableReplication
    @testable import RoundtableToolSupport

    /// What a user who may write a replica's folder can make the superuser do (`docs/SECURITY.md`).
    @Suite struct SecurityToolTests {
        private let folder: TemporaryFolder
        private let root: URL

        init() throws {
            folder = try TemporaryFolder()
            root = folder.url.appendingPathComponent("replica")
            #expect(mkdir(root.path, 0o755) == 0)
            #expect(mkdir(folder.url.appendingPathComponent("outside").path, 0o755) == 0)
            try Data("private".utf8).write(to: folder.url.appendingPathComponent("outside/secret"))
        }

        private func store() throws -> ClaimStore {
            ClaimStore(
                litestream: LitestreamProgram(path: "/bin/false"),
                url: try ReplicaURL("file://\(root.path)")
            ) { _ in throw ToolError("no program runs") }
        }

        private func owner(_ path: String) throws -> UInt32? { try System.statusOfLink(at: path)?.st_uid }

        /// A promotion by the superuser gives the claims to the owner of the replica, and nothing that is there or that links lead to.
        @Test(.enabled(if: OtherUser.isPossible, "only the superuser gives files away"))
        func claimsAreGivenAway() throws {
            let (outside, claims) = (folder.url.appendingPathComponent("outside"), root.path + "/roundtable")
            let upload = folder.url.appendingPathComponent("upload/ltx/0")
            try FileManager.default.createDirectory(at: upload, withIntermediateDirectories: true)
            try Data([1]).write(to: upload.appendingPathComponent("a"))
            #expect(mkdir(claims, 0o755) == 0 && chown(claims, 65534, 65534) == 0)
            #expect(symlink(outside.path + "/secret", claims + "/link") == 0)
            #expect(link(outside.path + "/secret", claims + "/hard") == 0)
            try Data().write(to: URL(fileURLWithPath: claims + "/key"))
            #expect(chown(root.path, 65534, 65534) == 0)
            try store().exclusively {}
            for content: UInt8 in [1, 2] {
                try Data([content]).write(to: upload.appendingPathComponent("a"))
                let files = try OpenFolder(at: folder.url.appendingPathComponent("upload").path)
                try ReplicaFolder(at: root.path).copy(files, to: ReplicaURL.folders(ofClaim: 1))
            }
            let claim = "claims/\(UInt64(1).digits)"
            let below = claim + "/ltx"
            for name in ["claims", claim, below, below + "/0", below + "/0/a", "claims.lock"] {
                #expect(try owner(claims + "/" + name) == 65534, "\(name)")
            }
            #expect(try owner(claims + "/key") == 0 && owner(outside.path + "/secret") == 0)
            // The first claim counts.
            #expect(FileManager.default.contents(atPath: claims + "/" + below + "/0/a") == Data([1]))
            #expect(try FileManager.default.contentsOfDirectory(atPath: claims + "/" + below + "/0") == ["a"])
        }

        /// The owner of a replica gives the name of the claims to a private folder of the superuser's.
        @Test(.enabled(if: OtherUser.isPossible, "only the superuser gives files away"), arguments: ["", "/claims"])
        func aPrivateFolderIsNotGivenAway(below: String) throws {
            let place = root.path + "/roundtable" + below
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
            try Data().write(to: URL(fileURLWithPath: place + "/key"))
            #expect(chmod(place, 0o700) == 0)
            if !below.isEmpty { #expect(chown(root.path + "/roundtable", 65534, 65534) == 0) }
            #expect(chown(root.path, 65534, 65534) == 0)
            let files = try OpenFolder(at: folder.url.appendingPathComponent("outside").path)
            #expect(throws: ToolError.self) {
                try ReplicaFolder(at: root.path).copy(files, to: ReplicaURL.folders(ofClaim: 1))
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: place) == ["key"])
            #expect(try owner(place) == 0 && owner(place + "/key") == 0)
        }

        /// A promotion that was killed leaves an unfinished file, which the next claim at that place removes (rules D3, V2).
        @Test func whatAKilledPromotionHasLeft() throws {
            let replica = try ReplicaFolder(at: root.path)
            let place = try replica.folder(at: ReplicaURL.folders(ofClaim: 1))
            let left = ".roundtable-claim.\(Int32.max - 1)-1-\(ProcessIdentity.current.namespace)-1-1.new"
            try place.makeFile(left, [1], access: nil, isDurable: false)
            let files = try OpenFolder(at: folder.url.appendingPathComponent("outside").path)
            try replica.copy(files, to: ReplicaURL.folders(ofClaim: 1))
            #expect(try place.names() == ["secret"])
        }

        /// The lock of a promotion is not created through a link.
        @Test(arguments: ["roundtable", "roundtable/claims.lock"])
        func theLockOfAPromotion(link: String) throws {
            let outside = folder.url.appendingPathComponent("outside")
            if link.contains("/") { #expect(mkdir(root.path + "/roundtable", 0o755) == 0) }
            #expect(symlink(link.contains("/") ? outside.path + "/new" : outside.path, root.path + "/" + link) == 0)
            #expect(throws: (any Error).self) { try store().exclusively { Issue.record("the link was followed") } }
            #expect(try FileManager.default.contentsOfDirectory(atPath: outside.path) == ["secret"])
        }

        @Test(arguments: [
            ("a\u{1B}[2J", "a·[2J"), ("x\u{202E}y", "x·y"), ("a\nb", "a·b"), ("\u{2028}", "·"), ("Zoë", "Zoë"),
        ])
        func textOfOtherUsers(text: String, shown: String) { #expect(text.visibleLine == shown) }
    }
#endif
