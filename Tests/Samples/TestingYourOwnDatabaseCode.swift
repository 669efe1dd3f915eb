import Foundation
import RoundtableTestKit
import Testing

/// As in Examples/TestKit.
struct Notebook {
    init(at url: URL) throws {}
    func numbers(in list: Int) throws -> [Int] { [] }
    func append(_ number: Int, to list: Int) throws {}
}

// MARK: 0xDEAD10CC

var writer: URL { fatalError() }
var database: URL { fatalError() }

func synchronize() throws {}
