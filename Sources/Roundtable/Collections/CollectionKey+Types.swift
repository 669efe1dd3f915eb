import Foundation
import GRDB

extension String: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { .text }
}

extension Int: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { .integer }
}

extension Int64: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { .integer }
}

extension UUID: CollectionKey {
    /// 16 bytes, as GRDB stores them.
    public static var keyColumn: CollectionKeyColumn { .blob }
}

extension Data: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { .blob }
}

extension CollectionKey where Self: RawRepresentable, RawValue: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { RawValue.keyColumn }
}
