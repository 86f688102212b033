//! What a method is: a name, what it takes and what it gives.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::params::ParamsChecker;

/// A method of the gateway.
pub trait GatewayMethod {
    /// Its name on the wire.
    const NAME: &'static str;
    /// The scope that it needs.
    const SCOPE: TokenScope;
    /// What it takes; unknown fields are refused.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send;
    /// What it gives.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send;

    /// Checks what it is given.
    fn checker() -> &'static ParamsChecker;
}

/// A method, as a row of a table.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Its name on the wire.
    pub name: &'static str,
    /// The scope that it needs.
    pub scope: TokenScope,
    /// Checks what it is given.
    pub checker: fn() -> &'static ParamsChecker,
    pub(crate) params: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) result: fn(&mut SchemaGenerator) -> Schema,
}

impl MethodInfo {
    /// The row of a method.
    pub const fn for_method<M: GatewayMethod>() -> Self {
        Self {
            name: M::NAME,
            scope: M::SCOPE,
            checker: M::checker,
            params: |generator| generator.subschema_for::<M::Params>(),
            result: |generator| generator.subschema_for::<M::Result>(),
        }
    }
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenScope {
    /// To look.
    Read,
    /// To talk; includes looking.
    Write,
    /// To answer whether calls may run.
    Approvals,
    /// To answer other questions.
    Questions,
    /// Everything.
    Admin,
}

impl TokenScope {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::Approvals, Self::Questions, Self::Admin];

    /// The scope on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "operator.read",
            Self::Write => "operator.write",
            Self::Approvals => "operator.approvals",
            Self::Questions => "operator.questions",
            Self::Admin => "operator.admin",
        }
    }

    /// The scope of that word.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    /// Whether who has `self` may do what needs `needed`.
    pub fn covers(self, needed: Self) -> bool {
        self == Self::Admin || self == needed || (self == Self::Write && needed == Self::Read)
    }
}

/// Declares methods: type, name, scope, what they take and give; and the table of them.
#[macro_export]
macro_rules! methods {
    ($($(#[$doc:meta])* $type:ident $name:literal $scope:ident $params:ty => $result:ty;)*) => {
        /// The methods of this module.
        pub const METHODS: &[$crate::method::MethodInfo] =
            &[$($crate::method::MethodInfo::for_method::<$type>()),*];

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $type;

            impl $crate::method::GatewayMethod for $type {
                const NAME: &'static str = $name;
                const SCOPE: $crate::method::TokenScope = $crate::method::TokenScope::$scope;
                type Params = $params;
                type Result = $result;

                fn checker() -> &'static $crate::params::ParamsChecker {
                    static CHECKER: std::sync::LazyLock<$crate::params::ParamsChecker> =
                        std::sync::LazyLock::new($crate::params::ParamsChecker::for_type::<$params>);
                    &CHECKER
                }
            }
        )*
    };
}
