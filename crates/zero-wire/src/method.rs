//! [`GatewayMethod`], a method of the gateway with the types of its parameters and its result;
//! [`MethodInfo`], the same as a table row; and [`TokenScope`], the permission that it needs.
//!
//! Each module of methods declares them with the [`methods!`](crate::methods) macro.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::params::ParamsChecker;

/// A method of the gateway, implemented by an empty type.
pub trait GatewayMethod {
    /// Name on the wire.
    const NAME: &'static str;
    /// The scope that a client needs to call it.
    const SCOPE: TokenScope;
    /// Parameters; unknown fields are refused.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send;
    /// Payload of a successful response.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send;

    /// Returns the validator of its parameters, which is built on first use.
    fn checker() -> &'static ParamsChecker;
}

/// A method as a row of a table.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Name on the wire.
    pub name: &'static str,
    /// The scope that a client needs to call it.
    pub scope: TokenScope,
    /// Returns the validator of its parameters.
    pub checker: fn() -> &'static ParamsChecker,
    pub(crate) params: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) result: fn(&mut SchemaGenerator) -> Schema,
}

impl MethodInfo {
    /// Creates the row of a method.
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

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenScope {
    /// Read sessions and events.
    Read,
    /// Send prompts and change sessions; includes `Read`.
    Write,
    /// Answer approvals.
    Approvals,
    /// Answer questions that are not approvals.
    Questions,
    /// Everything.
    Admin,
}

impl TokenScope {
    /// All scopes.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::Approvals, Self::Questions, Self::Admin];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "operator.read",
            Self::Write => "operator.write",
            Self::Approvals => "operator.approvals",
            Self::Questions => "operator.questions",
            Self::Admin => "operator.admin",
        }
    }

    /// Returns the scope with this name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    /// Whether a token with this scope may call a method that needs `needed`.
    pub fn covers(self, needed: Self) -> bool {
        self == Self::Admin || self == needed || (self == Self::Write && needed == Self::Read)
    }
}

/// Declares methods as `Type "name" Scope Params => Result;` and a table `METHODS` of them.
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
