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
    /// A UUID is stored as 16 bytes, as GRDB does.
    public static var keyColumn: CollectionKeyColumn { .blob }
}

extension Data: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { .blob }
}

extension CollectionKey where Self: RawRepresentable, RawValue: CollectionKey {
    public static var keyColumn: CollectionKeyColumn { RawValue.keyColumn }
}
