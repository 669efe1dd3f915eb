#if os(Linux)
    import Foundation
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    @testable import RoundtableTool

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

        /// A promotion by the superuser gives the claims to the owner of the replica, and nothing that links lead to.
        @Test(.enabled(if: OtherUser.isPossible, "only the superuser gives files away"), arguments: [true, false])
        func claimsAreGivenAway(folderIsLink: Bool) throws {
            let outside = folder.url.appendingPathComponent("outside")
            let claims = root.appendingPathComponent("roundtable")
            if folderIsLink {
                #expect(symlink(outside.path, claims.path) == 0)
            } else {
                #expect(mkdir(claims.path, 0o755) == 0)
                #expect(symlink(outside.path + "/secret", claims.path + "/link") == 0)
                #expect(link(outside.path + "/secret", claims.path + "/hard") == 0)
                try Data().write(to: claims.appendingPathComponent("claim"))
            }
            #expect(chown(root.path, 65534, 65534) == 0)
            try store().giveToOwner()
            #expect(try owner(outside.path) == 0 && owner(outside.path + "/secret") == 0)
            if !folderIsLink { #expect(try owner(claims.path) == 65534 && owner(claims.path + "/claim") == 65534) }
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
        func textOfOthers(text: String, shown: String) { #expect(text.visibleLine == shown) }
    }
#endif
