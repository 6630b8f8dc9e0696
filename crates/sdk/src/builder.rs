//! What all operation builders share: they can be awaited, turned into a future, or spawned.

/// Gives a builder with a `run(self) -> Running` method its ways to start.
macro_rules! startable {
    ($builder:ident [$($generic:ident),*] $output:ty where { $($bounds:tt)* }) => {
        impl<'a, $($generic),*> $builder<'a, $($generic),*>
        where $($bounds)*
        {
            /// The operation as a future that runs in place, for code such as `join_all`.
            pub fn future(self) -> $crate::future::Running<'a, $output> {
                self.run()
            }
        }

        impl<'a, $($generic),*> $builder<'a, $($generic),*>
        where 'a: 'static, $($bounds)*
        {
            /// Starts the operation in the background and gives a handle to its outcome.
            pub fn spawn(mut self) -> $crate::future::DurableFuture<$output> {
                self.op.spawned = true;
                self.run().spawn()
            }
        }

        impl<'a, $($generic),*> std::future::IntoFuture for $builder<'a, $($generic),*>
        where $($bounds)*
        {
            type Output = $crate::error::Result<$output>;
            type IntoFuture = $crate::future::Running<'a, $output>;

            fn into_future(self) -> Self::IntoFuture {
                self.run()
            }
        }
    };
}
pub(crate) use startable;
